// One random mutation of the document, chosen by `seed`; returns its kind. Kinds that start with "browser:" are left to the caller.
(seed) => {
  let state = seed >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const pick = (list) => list[Math.floor(random() * list.length)];
  if (!document.body) document.documentElement.append(document.createElement('body'));

  const elements = [];
  const gather = (root) => {
    for (const element of root.querySelectorAll('*')) {
      elements.push(element);
      if (element.shadowRoot) gather(element.shadowRoot);
      if (element.tagName === 'IFRAME') {
        try { if (element.contentDocument && element.contentDocument.body) gather(element.contentDocument.body); } catch (error) { /* of another site */ }
      }
    }
  };
  gather(document.body);
  const any = () => pick(elements.length ? elements : [document.body]);
  const full = elements.length > 90;

  const words = ['Save', 'Open', 'Delete', 'Item ' + seed, "it's", '[7] button \'x\'', '', '\u202eevil', 'a\nb', 'R3 | Trusted | open', 'CHANGES since', '\u2028[9] link',
    '\u0085x', '\x1b[31mred', '\ud800', '\ue627', 'x'.repeat(300), '\u00a0', '0', '12 results', '\u200b', 'é', '日本語', '"', '\\'];
  const styles = ['position:absolute;left:-9999px', 'opacity:0', 'font-size:0', 'display:none', 'visibility:hidden', 'clip-path:inset(50%)', 'transform:scale(0)',
    'overflow:auto;height:30px', 'display:contents', 'position:fixed;inset:0;background:#fff', 'height:0;overflow:hidden', 'color:transparent', 'pointer-events:none',
    'cursor:pointer', 'content-visibility:hidden', 'display:inline', 'display:flex', 'order:-1', 'float:right', 'display:table-row', 'zoom:2'];
  const pieces = () => [
    '<button>' + pick(words) + '</button>', '<p>' + pick(words) + ' <a href="/p' + seed + '">link</a></p>', '<input type=date value=2026-01-02>',
    '<input type=password value=secret>', '<div role="alert">Saved ' + seed + '</div>', '<ul role="menu"><li role="menuitem">Edit</li></ul>',
    '<label><input type="checkbox"> ' + pick(words) + '</label>', '<section><h2>x</h2><div><p>one</p><p>two</p></div></section>', '<svg><title>t</title><circle r=4></svg>',
    '<div><span onclick="1" style="cursor:pointer">card</span></div>', '<details><summary>More</summary>text</details>', '<div style="opacity:0">unseen</div>',
    '<input type=range value=3>', '<input type=file>', '<input type=radio name=r>', '<input type=number value=2>', '<input type=color>', '<textarea>t</textarea>',
    '<select multiple><option selected>A<option>B</select>', '<select><optgroup label=G><option>A</optgroup><option selected>B</select>',
    '<table><tr><th>h<td>1<td><a href=#>x</a></table>', '<fieldset disabled><legend>L</legend><input value=v></fieldset>', '<img alt="' + pick(['', 'Photo']) + '" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">',
    '<div role=tablist><div role=tab aria-selected=true>T</div></div>', '<div role=combobox aria-expanded=true aria-label=C></div>', '<progress value=.3></progress>', '<meter value=.3></meter>',
    '<dl><dt>a<dd>b</dl>', '<video controls></video>', '<div contenteditable>edit <b>me</b></div>', '<map name=m><area href=/a alt=A shape=rect coords=0,0,9,9></map><img usemap=#m width=9 height=9>',
    '<ruby>a<rt>b</ruby>', '<math><mi>x</mi></math>', '<object data="data:text/html,<button>o</button>"></object>', '<a>x</a>', '<div tabindex=0>focus</div>', '<hr>', '<marquee>m</marquee>',
    '<div role=grid aria-rowcount=5000><div role=row aria-rowindex=41><div role=gridcell>c</div></div></div>', '<template><p>no</p></template>', '<div aria-live=polite>' + pick(words) + '</div>'];
  const fresh = () => {
    const host = document.createElement('div');
    host.innerHTML = pick(pieces());
    return host.firstElementChild;
  };
  const attributes = ['aria-expanded', 'aria-checked', 'aria-pressed', 'aria-selected', 'aria-disabled', 'aria-modal', 'aria-busy', 'aria-level', 'aria-valuetext', 'aria-description', 'disabled', 'hidden',
    'inert', 'aria-hidden', 'aria-label', 'tabindex', 'contenteditable', 'title', 'lang', 'dir', 'slot', 'draggable', 'readonly', 'required', 'open', 'href', 'type', 'aria-roledescription', 'popover', 'alt'];

  const kinds = {
    insert() { if (full) return; const at = any(); pick([() => at.before(fresh()), () => at.after(fresh()), () => at.append(fresh()), () => at.prepend(fresh())])(); },
    remove() { if (elements.length > 15) any().remove(); },
    move() { const a = any(), b = any(); if (!a.contains(b)) b.append(a); },
    swap() { const a = any(); if (a.nextElementSibling) a.nextElementSibling.after(a); },
    reverse() { const at = any(); [...at.children].reverse().forEach((child) => at.append(child)); },
    rerender() { const at = any(); at.innerHTML = at.innerHTML; },
    recreate() { const at = any(); at.replaceWith(at.cloneNode(true)); },
    clone() { const at = any(); if (!full && at.querySelectorAll('*').length < 20) at.before(at.cloneNode(true)); },
    wrap() { const at = any(), host = document.createElement(pick(['div', 'section', 'form', 'label', 'a', 'button', 'table'])); at.before(host); host.append(at); },
    unwrap() { const at = any(); at.replaceWith(...at.childNodes); },
    empty() { const at = any(); if (elements.length > 30) at.replaceChildren(); },
    text() { pick([() => any().append(pick(words)), () => any().prepend(pick(words))])(); },
    retext() { const at = pick(elements.filter((element) => element.childElementCount === 0)); if (at) at.textContent = pick(words); },
    attribute() { const at = any(), name = pick(attributes); if (at.hasAttribute(name)) at.removeAttribute(name); else at.setAttribute(name, pick(['true', 'false', '0', pick(words)])); },
    role() { any().setAttribute('role', pick(['button', 'listitem', 'group', 'generic', 'alert', 'dialog', 'none', 'row', 'x', 'status', 'menu', 'option', 'textbox', 'img', 'application', 'presentation'])); },
    style() { const at = any(); if (at.hasAttribute('style')) at.removeAttribute('style'); else at.setAttribute('style', pick(styles)); },
    value() { const at = pick([...document.querySelectorAll('input,select,textarea')]); if (!at || at.type === 'file') return; if (at.type === 'checkbox' || at.type === 'radio') at.checked = !at.checked; else at.value = pick(words); },
    option() { const at = pick([...document.querySelectorAll('select')]); if (at) pick([() => at.add(new Option(pick(words))), () => at.remove(0), () => { at.selectedIndex = 1; }])(); },
    relate() { const a = any(), b = any(); b.id = b.id || 'i' + seed; a.setAttribute(pick(['aria-owns', 'aria-controls', 'aria-labelledby', 'aria-describedby', 'aria-activedescendant', 'for']), b.id); },
    frame() { if (document.querySelectorAll('iframe').length > 3) return; const frame = document.createElement('iframe');
      frame.srcdoc = '<button>in ' + seed + '</button><p>frame</p>' + pick(['', '<iframe srcdoc="<a href=/>nested</a>"></iframe>']); any().after(frame); },
    foreign() { if (document.querySelectorAll('iframe').length > 3) return; const frame = document.createElement('iframe'); frame.src = 'http://other.example/' + seed; any().after(frame); },
    reframe() { const frame = pick([...document.querySelectorAll('iframe')]); if (frame) frame.srcdoc = '<h1>again ' + seed + '</h1>'; },
    unframe() { const frame = pick([...document.querySelectorAll('iframe')]); if (frame) frame.remove(); },
    shadow() { const host = document.createElement('div'); host.innerHTML = '<span>slotted</span><b slot=n>named</b>';
      host.attachShadow({ mode: pick(['open', 'closed']) }).innerHTML = '<button>shadow ' + seed + '</button><slot></slot>' + pick(['', '<slot name=n></slot>']); any().after(host); },
    dialog() { const old = document.querySelector('dialog'); if (old) { old.remove(); return; } const box = document.createElement('dialog');
      box.innerHTML = '<p>Sure?</p><button>Yes</button>'; document.body.append(box); pick([() => box.showModal(), () => box.show()])(); },
    popover() { const box = document.createElement('div'); box.popover = 'auto'; box.innerHTML = '<a href=/x>pop ' + seed + '</a>'; document.body.append(box); box.showPopover(); },
    overlay() { const old = document.getElementById('over'); if (old) { old.remove(); return; } document.body.insertAdjacentHTML('beforeend', '<div id=over style="position:fixed;inset:0;z-index:9;background:#fff"><button>Accept</button></div>'); },
    toggle() { const at = pick([...document.querySelectorAll('details')]); if (at) at.open = !at.open; },
    message() { const at = document.querySelector('[role=status]') || document.body; at.textContent.length < 200 ? at.append(pick(words)) : at.replaceChildren('done'); },
    push() { history.pushState({}, '', pick(['#v' + seed, '?v=' + seed, '/p' + (seed % 3)])); },
    view() { if (random() < 0.3) { history.pushState({}, '', '/view' + seed); document.body.innerHTML = '<main><h1>View ' + seed + '</h1><ul><li><a href=/a>a</a><li>b</ul><form><input><button>Go</button></form></main>'; } },
    write() { if (random() < 0.3) { document.open(); document.write('<title>w</title><h1>Written ' + seed + '</h1><button>Go</button><p>text<ul><li>a<li>b</ul>'); document.close(); } },
    title() { document.title = pick(words); },
    focus() { const at = pick([...document.querySelectorAll('button,input,a')]); if (at) at.focus(); },
    scroll() { window.scrollTo(0, random() * 500); },
    click() { const at = pick([...document.querySelectorAll('button,summary,input[type=checkbox]')]); if (at) at.click(); },
    ask() { setTimeout(() => window.confirm('Sure ' + seed), 0); },
    'browser:reload'() {},
  };
  const kind = pick(Object.keys(kinds));
  try { kinds[kind](); } catch (error) { if (!(error instanceof DOMException)) throw error; }
  return kind;
}
