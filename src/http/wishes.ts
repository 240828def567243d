import { type IncomingHttpHeaders } from 'node:http'
import { type Wishes } from '../proxy/stamp.js'

/** What a client says of the form that it wants an answer in. */
export function wishesOf (headers: IncomingHttpHeaders): Wishes {
  return { ifNoneMatch: headers['if-none-match'], acceptEncoding: headers['accept-encoding'] }
}
