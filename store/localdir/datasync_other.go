//go:build !linux

package localdir

import "os"

func datasync(f *os.File) error { return f.Sync() }
