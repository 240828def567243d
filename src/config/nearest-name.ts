/**
 * Returns the name with the smallest edit distance: insertions, deletions, substitutions, and swaps of neighbouring
 * characters.
 */
export function nearestOf (text: string, names: readonly [string, ...string[]]): string {
  const distances = names.map(name => editsBetween(text, name))
  return names[distances.indexOf(Math.min(...distances))] ?? names[0]
}

/** Returns the nearest name if it is near enough to be what a mistyped text means. */
export function closeNameTo (text: string, names: readonly string[]): string | undefined {
  const [first, ...others] = names
  if (first === undefined) return undefined
  const nearest = nearestOf(text, [first, ...others])
  const edits = editsBetween(text.toLowerCase(), nearest.toLowerCase())
  return edits <= Math.max(1, Math.floor(nearest.length / 3)) ? nearest : undefined
}

/** Returns ` (did you mean NAME?)` for a message, or nothing. */
export function suggestionFor (text: string, names: readonly string[]): string {
  const name = closeNameTo(text, names)
  return name === undefined ? '' : ` (did you mean ${name}?)`
}

// Stores every row of the table, because a swap looks two rows back.
function editsBetween (from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_none, column) => column)]
  const at = (row: number, column: number): number => rows[row]?.[column] ?? Infinity
  for (let row = 1; row <= from.length; row++) {
    rows.push([row])
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1]
      const isSwap = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      rows[row]?.push(Math.min(
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
        at(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwap ? at(row - 2, column - 2) + 1 : Infinity
      ))
    }
  }
  return at(from.length, to.length)
}
