package store

// Before has f called ahead of each system call of d that changes something.
func (d *DirStore) Before(f func(call string) error) { d.before = f }

// IsTemp reports whether name is that of an upload under way.
func IsTemp(name string) bool { return isTemp(name) }

const MaxSweepDepth = maxSweepDepth
