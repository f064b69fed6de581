//go:build !(darwin || freebsd || linux || netbsd || windows)

package store

// Birth returns nothing: the system has no birth times, or none known here.
func (d *DirStore) Birth(string) Birth { return Birth{} }
