import neostandard from 'neostandard'

export default [
  ...neostandard({ ts: true, ignores: ['dist/**', 'node_modules/**', '.tap/**'] }),
  {
    rules: {
      'max-lines': ['error', { max: 300 }],
      // The formatter's (npm run format), which lays these out in its own way.
      '@stylistic/indent': 'off',
      '@stylistic/generator-star-spacing': 'off',
      '@stylistic/semi-spacing': 'off',
      '@stylistic/multiline-ternary': 'off',
      '@stylistic/lines-between-class-members': 'off'
    }
  },
  {
    files: ['src/**/*.ts', 'sandbox/**/*.ts'],
    rules: {
      'no-console': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-non-null-assertion': 'error'
    }
  },
  {
    files: ['src/http/page/*.js'],
    languageOptions: { globals: { requestAnimationFrame: 'readonly', ResizeObserver: 'readonly' } }
  },
  { files: ['test/**/*.ts'], rules: { 'max-lines': 'off' } }
]
