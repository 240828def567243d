/** A text with too little contrast. */
export interface LowContrastText {
  readonly text: string
  readonly ratio: number
  readonly colour: string
  readonly background: string
}

/**
 * Counts visible texts in a browser and those below 4.5 times the contrast (WCAG 2.2, 1.4.3) to the nearest background.
 */
export const contrastScript = `(() => {
  const numbers = colour => (colour.match(/[\\d.]+/g) ?? []).map(Number)
  const isSeen = element => element.checkVisibility({ visibilityProperty: true }) && element.closest('.unseen, .skip, noscript') === null
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(part => part / 255).map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    return 0.2126 * x + 0.7152 * y + 0.0722 * z
  }
  const groundOf = element => {
    for (let at = element; at !== null; at = at.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(at).backgroundColor)
      if (a === 1) return [r, g, b]
      if (a !== 0) throw new Error('a ground that can be seen through')
    }
    throw new Error('no ground at all')
  }
  const unreadable = []
  let texts = 0
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const { parentElement: element, textContent: text } = walker.currentNode
    if (text.trim() === '' || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(element.tagName) || !isSeen(element)) continue
    texts++
    const style = getComputedStyle(element)
    for (let at = element; at !== null; at = at.parentElement) if (getComputedStyle(at).opacity !== '1') throw new Error('a text that can be seen through')
    const colour = element instanceof SVGElement ? style.fill : style.color
    const [front, back] = [numbers(colour), groundOf(element)].map(luminance)
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05)
    if (ratio < 4.5) unreadable.push({ text: text.trim().slice(0, 40), ratio: Math.round(ratio * 100) / 100, colour, behind: groundOf(element).join() })
  }
  return { texts, unreadable }
})()`
