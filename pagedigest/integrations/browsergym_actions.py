"""The actions by which a BrowserGym agent asks to see more. Their bodies do nothing: the next observation answers.

BrowserGym copies a custom action's source and runs it elsewhere, so each stands alone, imports nothing, and has a
docstring in BrowserGym's form: text, then `Examples:`, then calls.
"""

__all__ = ["find", "view_all", "view_region"]


def view_all(page: int = 1):  # type: ignore[no-untyped-def]
    """
    See every region of this page in full, in pages. Use it when the page digest lacks what you need.

    Examples:
        view_all()

        view_all(2)
    """
    pass


def view_region(region: str):  # type: ignore[no-untyped-def]
    """
    See one region of the page digest in full, by its name.

    Examples:
        view_region('R4')
    """
    pass


def find(text: str):  # type: ignore[no-untyped-def]
    """
    See the elements of this page that hold a text, whether the page digest shows them or not.

    Examples:
        find('Add to cart')
    """
    pass
