import { register } from 'node:module'

// The runner's own way loads the compiler into each process of a test file and has it print the same files again: three
// quarters of the time of all tests.
register('./typescript-hooks.js', import.meta.url)
