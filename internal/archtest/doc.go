// Package archtest holds the tests of the structure of the source. They check the imports of each package against the
// table of docs/architecture.md, the places of unsafe code, and the width of lines. They check that nothing runs at
// import time and that every package has a comment.
package archtest
