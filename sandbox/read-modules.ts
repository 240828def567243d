import { addressBytes } from './address.js'
import { sequenceBytes, sizedBytes, textBytes } from './bcs.js'
import { type Form } from './accept.js'
import { moduleRecord } from './module-abi.js'
import { type Module, moduleAt, modulesAt } from './modules.js'
import { addressParam, cursorQuery, identifierParam, limitQuery, u64Query } from './params.js'
import { moduleNotFound } from './problem.js'
import { formOf, pageSize, paramOf, type Question, readableVersion, success, withCursor } from './question.js'
import { renderingOf } from './release.js'
import { type Reply } from './reply.js'

/** Lists the modules of an account, a page at a time. */
export function readModules (question: Question): Reply {
  const address = addressParam('address', paramOf(question, 0))
  const asked = u64Query(question.query, 'ledger_version')
  const start = cursorQuery(question.query)
  const limit = limitQuery(question.query)
  const form = formOf(question, 'Get account modules')
  const version = readableVersion(question.view, asked)
  const { modulesPage } = question.settings
  const size = pageSize(limit, modulesPage, modulesPage)
  const { ledger } = question.view
  const rest = modulesAt(ledger, address, version).filter(({ key }) => start === undefined || key.compare(start) >= 0)
  const answer = success(question, form, pageBody(form, rest.slice(0, size), ledger.release))
  return withCursor(question, answer, rest[size]?.key)
}

/** Fetches one module of an account, the same as in the listing. */
export function readModule (question: Question): Reply {
  const address = addressParam('address', paramOf(question, 0))
  const name = identifierParam('module_name', paramOf(question, 1))
  const asked = u64Query(question.query, 'ledger_version')
  const form = formOf(question, 'Get account module')
  const version = readableVersion(question.view, asked)
  const { ledger } = question.view
  const module = moduleAt(ledger, address, name, version)
  if (module === undefined) throw moduleNotFound(address, name, version)
  return success(
    question,
    form,
    form === 'json' ? JSON.stringify(moduleRecord(module, renderingOf(ledger.release))) : module.bytecode
  )
}

function pageBody (form: Form, page: Module[], release: string): string | Buffer {
  if (form === 'json') return JSON.stringify(page.map(module => moduleRecord(module, renderingOf(release))))
  // The page is cut in the order of the state keys and printed as a map in the order of the names.
  const byName = page.toSorted((a, b) => a.name < b.name ? -1 : 1)
  return sequenceBytes(
    byName.map(({ address, name, bytecode }) =>
      Buffer.concat([addressBytes(address), textBytes(name), sizedBytes(bytecode)])
    )
  )
}
