import { z } from 'zod'

/** A body of bytes. */
export const bytes = z.unknown().meta({
  id: 'Bcs',
  type: 'string',
  format: 'binary',
  description: 'Bytes in binary canonical serialization.'
})
