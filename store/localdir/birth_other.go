//go:build !(darwin || freebsd || linux || netbsd || windows)

package localdir

import "github.com/haul-project/haul/store"

// Birth returns nothing: the system has no birth times, or none known here.
func (d *Dir) Birth(string) store.Birth { return store.Birth{} }
