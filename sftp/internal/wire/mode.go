package wire

// A Mode is a file's type and permissions, as in POSIX st_mode. The draft says no more than that
// about its "permissions" (section 5). POSIX does not define the numbers of the types; the numbers
// below are the same on all systems in use.
type Mode uint32

// The bits of a Mode. A mode has at most one type.
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
	ModePerm   Mode = 0o777 // read, write and execute, for owner, group and others
)

// These are the bits of an fs.FileMode. This package may not import io/fs, which can open files. Go
// guarantees that the bits do not change, and a test compares them.
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

// modeTypes lists the file types, with their bits in an fs.FileMode and their letters in ls -l.
var modeTypes = [...]struct {
	mode   Mode
	goBits uint32
	letter byte
}{
	{ModeRegular, 0, '-'}, {ModeDir, goDir, 'd'}, {ModeSymlink, goSymlink, 'l'}, {ModeBlock, goDevice, 'b'},
	{ModeChar, goDevice | goCharDevice, 'c'}, {ModeFIFO, goNamedPipe, 'p'}, {ModeSocket, goSocket, 's'},
}

// modeBits lists the bits, besides types and permissions, that exist in both a Mode and an
// fs.FileMode.
var modeBits = [...]struct {
	mode   Mode
	goBits uint32
}{{ModeSetuid, goSetuid}, {ModeSetgid, goSetgid}, {ModeSticky, goSticky}}

// Type returns only the type. It is zero if the mode has only permissions, as in most requests.
func (m Mode) Type() Mode { return m & ModeType }

// IsDir reports whether the file is a directory.
func (m Mode) IsDir() bool { return m.Type() == ModeDir }

// FileMode returns the mode as the bits of an fs.FileMode. A mode without a type becomes a regular
// file, and a type that POSIX does not have becomes irregular.
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

// ModeOf converts the bits of an fs.FileMode. Irregular files have no type in the result.
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

// String returns the ten letters by which ls -l shows the mode, such as "drwxr-xr-x".
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

// appendTriple appends rwx for the three low bits. If `special` is set, the letter `with` replaces
// an x, and the letter `without` replaces a dash in the place of the x.
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
