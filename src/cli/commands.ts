import { type Command } from './command-definition.js'
import { proxyCommands } from './proxy-commands.js'
import { toolCommands } from './tool-commands.js'

/** Every command, in the order of help. */
export const commands: readonly Command[] = [...proxyCommands, ...toolCommands]

/** Returns the command of a name. */
export function findCommand (name: string): Command | undefined {
  return commands.find(command => command.name === name)
}
