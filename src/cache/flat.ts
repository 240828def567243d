/**
 * The same text in one piece, through bytes. One put together from pieces keeps the pieces alive, and is put together
 * anew each time that it becomes part of what is written. For texts as headers hold them, of which each character is a
 * byte.
 */
export function flat (text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
