//go:build !(darwin || freebsd || linux || netbsd || windows)

package localdir

import "github.com/haul-project/haul/store"

// birth returns the zero Birth: creation times are not available on this system.
func (d *Dir) birth(string) store.Birth { return store.Birth{} }
