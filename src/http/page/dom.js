// DOM updates: writes text, never HTML, and leaves unchanged nodes alone, so that readers keep their place.

const svgNames = 'http://www.w3.org/2000/svg'

export const byId = id => document.getElementById(id)

/** Sets the text of an element. */
export function write (element, text) {
  if (element.textContent !== text) element.textContent = text
}

/** Shows or hides an element. */
export function show (element, isShown) {
  element.toggleAttribute('hidden', !isShown)
}

/** Sets an attribute. */
export function set (element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value)
}

/** Creates an HTML element. */
export function make (name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children)
}

/** Creates an SVG element. */
export function draw (name, attributes = {}, ...children) {
  return filled(document.createElementNS(svgNames, name), attributes, children)
}

function filled (element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
  element.append(...children)
  return element
}

/** Keeps one child per item: reuses and updates existing children. */
export function repeat (parent, items, create, update) {
  while (parent.children.length > items.length) parent.lastElementChild.remove()
  while (parent.children.length < items.length) parent.append(create())
  items.forEach((item, at) => update(parent.children[at], item, at))
}

/** Creates a table row: each cell has a text, a note, and the name of its column, which narrow screens show. */
export function makeRow (columns) {
  const cells = columns.map((label, at) =>
    make(
      at === 0 ? 'th' : 'td',
      { role: at === 0 ? 'rowheader' : 'cell', 'data-label': label, ...(at === 0 && { scope: 'row' }) },
      make('bdi'),
      make('span', { class: 'note' })
    )
  )
  return make('tr', { role: 'row' }, ...cells)
}

/** Sets text and note of a cell. */
export function setCell (cell, text, note = '') {
  const [textElement, noteElement] = cell.children
  write(textElement, text)
  write(noteElement, note)
}

/** Shows a list of facts: name, value, note and bar. */
export function facts (list, items) {
  repeat(
    list,
    items,
    () => make('div', {}, make('dt'), make('dd', { class: 'fact' }), make('dd', { class: 'note' })),
    (row, [name, fact, note = '', share]) => {
      const [dt, dd, more] = row.children
      write(dt, name)
      if (dd.textContent !== fact) dd.replaceChildren(make('bdi', {}, fact))
      write(more, note)
      show(more, note !== '')
      const bar = row.querySelector('svg')
      if (share === undefined) bar?.remove()
      else fillBar(bar ?? row.appendChild(makeBar('bar')), 0, share)
    }
  )
}

/** Creates a bar of which a part is filled. */
export function makeBar (name) {
  return draw(
    'svg',
    { class: name, 'aria-hidden': 'true' },
    draw('rect', { class: 'all', width: '100%', height: '100%' }),
    draw('rect', { class: 'part', height: '100%' })
  )
}

/** Fills a bar from one share to another. */
export function fillBar (bar, from, to) {
  const part = bar.querySelector('.part')
  set(part, 'x', `${from * 100}%`)
  set(part, 'width', `${Math.max(0, to - from) * 100}%`)
}
