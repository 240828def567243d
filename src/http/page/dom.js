// The few ways in which the page is changed: a text is only ever a text, and what has not changed is left alone, so
// that no reader loses the place.

const svgNames = 'http://www.w3.org/2000/svg'

export const byId = id => document.getElementById(id)

/** Has an element say something. */
export function write (element, text) {
  if (element.textContent !== text) element.textContent = text
}

/** The same of a long number, which is broken between its groups where it must be. */
export function writeNumber (element, text) {
  if (element.textContent !== text) {
    element.replaceChildren(...text.split(/(?<=,)/).flatMap(group => [group, make('wbr')]))
  }
}

/** Has it be seen or not. */
export function show (element, isShown) {
  element.toggleAttribute('hidden', !isShown)
}

/** Has an attribute be so. */
export function set (element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value)
}

/** A new element with what it holds. */
export function make (name, attributes = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
  element.append(...children)
  return element
}

/** The same for a drawing. */
export function draw (name, attributes = {}, ...children) {
  const element = document.createElementNS(svgNames, name)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
  element.append(...children)
  return element
}

/** Has a parent hold one child for each item: those that are there are written anew. */
export function repeat (parent, items, create, update) {
  while (parent.children.length > items.length) parent.lastElementChild.remove()
  while (parent.children.length < items.length) parent.append(create())
  items.forEach((item, at) => {
    update(parent.children[at], item, at)
  })
}

/** A list of facts: what it is, what it is like, and a few words more. */
export function facts (list, items) {
  repeat(
    list,
    items,
    () => make('div', {}, make('dt'), make('dd', { class: 'fact' }), make('dd', { class: 'note' })),
    (row, [name, fact, note = '', bar]) => {
      const [dt, dd, more] = row.children
      write(dt, name)
      if (dd.textContent !== fact) dd.replaceChildren(make('bdi', {}, fact))
      write(more, note)
      show(more, note !== '')
      const drawn = row.querySelector('svg')
      if (bar === undefined) drawn?.remove()
      else spanned(drawn ?? row.appendChild(spanOf('bar')), 0, bar)
    }
  )
}

/** A thin bar of which a part is filled. */
export function spanOf (name) {
  return draw(
    'svg',
    { class: name, 'aria-hidden': 'true' },
    draw('rect', { class: 'all', width: '100%', height: '100%' }),
    draw('rect', { class: 'part', height: '100%' })
  )
}

/** Fills it from one share to another. */
export function spanned (bar, from, to) {
  const part = bar.querySelector('.part')
  set(part, 'x', `${from * 100}%`)
  set(part, 'width', `${Math.max(0, to - from) * 100}%`)
}
