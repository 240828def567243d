import { type Io, UsageError } from '../app/io.js'
import { AdminClient, type AdminFlags, adminUrlOf } from '../tools/admin/admin-client.js'

/** Returns a client of the admin listener that a flag or the environment names. */
export function adminClientOf ({ admin }: AdminFlags, { environment }: Io): AdminClient {
  const url = adminUrlOf(admin ?? (environment['VARVE_ADMIN'] || 'http://127.0.0.1:9464'))
  if (url === undefined) {
    throw new UsageError('--admin expects the address of an admin listener, such as http://127.0.0.1:9464')
  }
  return new AdminClient(url, environment['VARVE_ADMIN_TOKEN'] || undefined)
}
