"""Chromium's role enumeration as the protocol spells it: ARIA's name where a role has one, else Chromium's own.

204 entries with the last for every unknown role, as in Region4Web's role embedding. The order is part of shipped
weights: append, never reorder.
"""

from __future__ import annotations

__all__ = ["ROLES", "ROLE_INDEX", "UNKNOWN_ROLE"]

UNKNOWN_ROLE = "unknown"

_ARIA = """alert alertdialog application article banner blockquote button caption cell checkbox code columnheader combobox
comment complementary contentinfo definition deletion dialog directory document emphasis feed figure form generic grid
gridcell group heading image img insertion link list listbox listitem log main mark marquee math menu menubar menuitem
menuitemcheckbox menuitemradio meter navigation none note option paragraph presentation progressbar radio radiogroup
region row rowgroup rowheader scrollbar search searchbox sectionfooter sectionheader separator slider spinbutton status
strong subscript suggestion superscript switch tab table tablist tabpanel term textbox time timer toolbar tooltip tree
treegrid treeitem"""

_DIGITAL_PUBLISHING = """abstract acknowledgments afterword appendix backlink biblioentry bibliography biblioref chapter
colophon conclusion cover credit credits dedication endnote endnotes epigraph epilogue errata example footnote foreword
glossary glossref index introduction noteref notice pagebreak pagefooter pageheader pagelist part preface prologue
pullquote qna subtitle tip toc"""

_GRAPHICS = "graphics-document graphics-object graphics-symbol"

_INTERNAL = """Abbr Audio Canvas Caret Client ColorWell Column ComboBoxGrouping ComboBoxMenuButton Date DateTime
DescriptionList DescriptionListDetail DescriptionListTerm Desktop Details DisclosureTriangle DisclosureTriangleGrouped
EmbeddedObject Figcaption FooterAsNonLandmark HeaderAsNonLandmark Iframe IframePresentational ImeCandidate ImageMap
InlineTextBox InputTime Keyboard LabelText LayoutTable LayoutTableCell LayoutTableRow Legend LineBreak ListGrid
ListMarker MathMLFraction MathMLIdentifier MathMLMath MathMLNumber MathMLOperator MathMLRoot MathMLRow MathMLSquareRoot MathMLSub
MathMLSup MathMLTable MathMLText MenuListOption MenuListPopup
Pane PdfActionableHighlight PdfRoot PluginObject Portal Pre RootWebArea Ruby RubyAnnotation ScrollView Section StaticText Summary
SvgRoot TextField TitleBar Video WebArea WebView Window"""

ROLES: tuple[str, ...] = (
    *_ARIA.split(),
    *(f"doc-{name}" for name in _DIGITAL_PUBLISHING.split()),
    *_GRAPHICS.split(),
    *_INTERNAL.split(),
    UNKNOWN_ROLE,
)
ROLE_INDEX: dict[str, int] = {role: index for index, role in enumerate(ROLES)}
