import { type IncomingHttpHeaders } from 'node:http'
import { type ResponsePreferences } from '../proxy/response-builder.js'

/** Reads the headers that choose the form of a response. */
export function responsePreferencesOf (headers: IncomingHttpHeaders): ResponsePreferences {
  return { ifNoneMatch: headers['if-none-match'], acceptEncoding: headers['accept-encoding'] }
}
