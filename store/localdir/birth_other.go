//go:build !(darwin || freebsd || linux || netbsd || windows)

package localdir

import "github.com/haul-project/haul/store"

// birth returns nothing: the system has no birth times, or no known way to ask for them.
func (d *Dir) birth(string) store.Birth { return store.Birth{} }
