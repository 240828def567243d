import neostandard from 'neostandard'

export default [
  ...neostandard({ ts: true, ignores: ['dist/**', 'node_modules/**', '.tap/**'] }),
  { rules: { 'max-lines': ['error', { max: 200, skipBlankLines: true, skipComments: true }] } },
  {
    files: ['src/**/*.ts', 'sandbox/**/*.ts'],
    rules: {
      'no-console': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-non-null-assertion': 'error'
    }
  },
  { files: ['src/http/page/*.js'], languageOptions: { globals: { requestAnimationFrame: 'readonly', ResizeObserver: 'readonly' } } },
  { files: ['test/**/*.ts'], rules: { 'max-lines': 'off' } }
]
