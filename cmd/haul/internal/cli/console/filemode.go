package console

import "io/fs"

// UnixBits returns the permissions of a mode as the bits that chmod(1) uses.
func UnixBits(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for _, special := range []struct {
		bit  fs.FileMode
		unix uint32
	}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}} {
		if m&special.bit != 0 {
			bits |= special.unix
		}
	}
	return bits
}

// TypeName returns the type of a file in one or two words.
func TypeName(m fs.FileMode) string {
	switch m.Type() &^ fs.ModeCharDevice {
	case 0:
		return "file"
	case fs.ModeDir:
		return "dir"
	case fs.ModeSymlink:
		return "symlink"
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeSocket:
		return "socket"
	case fs.ModeDevice:
		if m&fs.ModeCharDevice != 0 {
			return "char device"
		}
		return "block device"
	}
	return "unknown"
}

// ModeString formats the type and the permissions of a file as ls -l does.
func ModeString(m fs.FileMode) string {
	letter := map[string]byte{"file": '-', "dir": 'd', "symlink": 'l', "fifo": 'p', "socket": 's', "char device": 'c', "block device": 'b'}
	b := []byte("?rwxrwxrwx")
	if c, ok := letter[TypeName(m)]; ok {
		b[0] = c
	}
	for i := range 9 {
		if m.Perm()&(1<<(8-i)) == 0 {
			b[i+1] = '-'
		}
	}
	for _, special := range []struct {
		bit  fs.FileMode
		at   int
		x, X byte
	}{{fs.ModeSetuid, 3, 's', 'S'}, {fs.ModeSetgid, 6, 's', 'S'}, {fs.ModeSticky, 9, 't', 'T'}} {
		if m&special.bit == 0 {
			continue
		}
		if b[special.at] == 'x' {
			b[special.at] = special.x
		} else {
			b[special.at] = special.X
		}
	}
	return string(b)
}
