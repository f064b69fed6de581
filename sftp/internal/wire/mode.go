package wire

// A Mode is a file's type and permissions as POSIX has them in st_mode, which
// is all that the draft says of its "permissions" (section 5). POSIX gives no
// numbers for the types; those below are what all systems in use agree on.
type Mode uint32

// The bits of a Mode. Of the types, one applies.
const (
	ModeType    Mode = 0o170000 // the bits of the type
	ModeSocket  Mode = 0o140000
	ModeSymlink Mode = 0o120000
	ModeRegular Mode = 0o100000
	ModeBlock   Mode = 0o060000
	ModeDir     Mode = 0o040000
	ModeChar    Mode = 0o020000
	ModeFIFO    Mode = 0o010000

	ModeSetuid Mode = 0o4000
	ModeSetgid Mode = 0o2000
	ModeSticky Mode = 0o1000
	ModePerm   Mode = 0o777 // rwx, three times
)

// The bits of a fs.FileMode. This package may not import io/fs, which can open
// files; Go promises that the bits stay what they are, and a test compares them.
const (
	goDir        = 1 << 31
	goSymlink    = 1 << 27
	goDevice     = 1 << 26
	goNamedPipe  = 1 << 25
	goSocket     = 1 << 24
	goSetuid     = 1 << 23
	goSetgid     = 1 << 22
	goCharDevice = 1 << 21
	goSticky     = 1 << 20
	goIrregular  = 1 << 19

	goType = goDir | goSymlink | goDevice | goNamedPipe | goSocket | goCharDevice | goIrregular
)

// modeTypes are the types: what a fs.FileMode has for each, and the letter of ls -l.
var modeTypes = [...]struct {
	mode   Mode
	goBits uint32
	letter byte
}{
	{ModeRegular, 0, '-'}, {ModeDir, goDir, 'd'}, {ModeSymlink, goSymlink, 'l'}, {ModeBlock, goDevice, 'b'},
	{ModeChar, goDevice | goCharDevice, 'c'}, {ModeFIFO, goNamedPipe, 'p'}, {ModeSocket, goSocket, 's'},
}

// modeBits are what else both have bits for, besides permissions.
var modeBits = [...]struct {
	mode   Mode
	goBits uint32
}{{ModeSetuid, goSetuid}, {ModeSetgid, goSetgid}, {ModeSticky, goSticky}}

// Type returns the type alone. It is zero where only permissions are given, as
// in most requests.
func (m Mode) Type() Mode { return m & ModeType }

// IsDir reports whether the file is a directory.
func (m Mode) IsDir() bool { return m.Type() == ModeDir }

// FileMode returns the mode as the bits of an fs.FileMode. Without a type it is
// that of a regular file; a type that POSIX does not have is irregular.
func (m Mode) FileMode() uint32 {
	kind := uint32(goIrregular)
	if m.Type() == 0 {
		kind = 0
	}
	for _, t := range modeTypes {
		if t.mode == m.Type() {
			kind = t.goBits
		}
	}
	g := kind | uint32(m&ModePerm)
	for _, b := range modeBits {
		if m&b.mode != 0 {
			g |= b.goBits
		}
	}
	return g
}

// ModeOf returns the mode for the bits of an fs.FileMode. Go's irregular files have
// no type here.
func ModeOf(fileMode uint32) Mode {
	m := Mode(fileMode) & ModePerm
	for _, t := range modeTypes {
		if t.goBits == fileMode&goType {
			m |= t.mode
		}
	}
	for _, b := range modeBits {
		if fileMode&b.goBits != 0 {
			m |= b.mode
		}
	}
	return m
}

// String returns the ten letters that ls -l has for the mode, as "drwxr-xr-x".
func (m Mode) String() string { return string(appendMode(nil, m)) }

func appendMode(b []byte, m Mode) []byte {
	kind := byte('?')
	for _, t := range modeTypes {
		if t.mode == m.Type() {
			kind = t.letter
		}
	}
	b = append(b, kind)
	b = appendTriple(b, m>>6, m&ModeSetuid != 0, 's', 'S')
	b = appendTriple(b, m>>3, m&ModeSetgid != 0, 's', 'S')
	return appendTriple(b, m, m&ModeSticky != 0, 't', 'T')
}

// appendTriple appends rwx for the low three bits. Where the special bit is
// set, its letter stands for x, and its capital for x not set.
func appendTriple(b []byte, bits Mode, special bool, with, without byte) []byte {
	r, w, x := byte('-'), byte('-'), byte('-')
	if bits&4 != 0 {
		r = 'r'
	}
	if bits&2 != 0 {
		w = 'w'
	}
	if bits&1 != 0 {
		x = 'x'
	}
	switch {
	case special && x == 'x':
		x = with
	case special:
		x = without
	}
	return append(b, r, w, x)
}
