/**
 * Copies a latin1 header text into one flat string. V8 ropes keep their pieces alive and are flattened on every write.
 */
export function flattenHeader (text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
