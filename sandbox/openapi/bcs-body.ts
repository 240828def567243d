import { z } from 'zod'

/** Schema of a binary body. */
export const bcsBody = z.unknown().meta({
  id: 'Bcs',
  type: 'string',
  format: 'binary',
  description: 'Bytes in binary canonical serialization.'
})
