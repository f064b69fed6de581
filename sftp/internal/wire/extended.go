package wire

import "iter"

// The content of an EXTENDED_REPLY depends on the extended request alone; so the
// driver, which knows the request, calls the method that fits.

// StatVFS is how full a file system is, the reply to statvfs@openssh.com and
// fstatvfs@openssh.com (PROTOCOL, section 4.4). Fields are as in POSIX statvfs.
type StatVFS struct {
	BlockSize       uint64 // f_bsize: bytes, as a unit to read and write
	FragmentSize    uint64 // f_frsize: bytes, the unit of the three below
	Blocks          uint64 // f_blocks
	FreeBlocks      uint64 // f_bfree
	AvailableBlocks uint64 // f_bavail: without what is reserved for root
	Files           uint64 // f_files: inodes
	FreeFiles       uint64 // f_ffree
	AvailableFiles  uint64 // f_favail: without what is reserved for root
	ID              uint64 // f_fsid
	Flags           uint64 // f_flag: StatVFSReadOnly and others
	MaxName         uint64 // f_namemax: bytes
}

// StatVFSReadOnly is the bit of StatVFS.Flags that forbids writing.
const StatVFSReadOnly uint64 = 1

// fields lists the fields in their order on the wire.
func (v *StatVFS) fields() [11]*uint64 {
	return [...]*uint64{
		&v.BlockSize, &v.FragmentSize, &v.Blocks, &v.FreeBlocks, &v.AvailableBlocks,
		&v.Files, &v.FreeFiles, &v.AvailableFiles, &v.ID, &v.Flags, &v.MaxName,
	}
}

// StatVFS reads the reply to statvfs@openssh.com or fstatvfs@openssh.com.
func (p *Reply) StatVFS() (StatVFS, error) {
	r := p.extended()
	var v StatVFS
	for _, f := range v.fields() {
		*f = r.uint64("file system's numbers")
	}
	if err := p.check(&r, ExtStatVFS); err != nil {
		return StatVFS{}, err
	}
	return v, nil
}

// AppendStatVFSReply appends that reply.
func AppendStatVFSReply(b []byte, id uint32, v StatVFS) []byte {
	b, at := begin(b, TypeExtendedReply, id)
	for _, f := range v.fields() {
		b = appendUint64(b, *f)
	}
	return end(b, at)
}

// Limits is what a server can take, the reply to limits@openssh.com (PROTOCOL,
// section 4.8). Zero means that the server names no limit.
type Limits struct {
	Packet  uint64 // bytes a packet, without its length field
	Read    uint64 // bytes that a READ may ask for
	Write   uint64 // bytes of data in a WRITE
	Handles uint64 // open at a time
}

// Limits reads the reply to limits@openssh.com.
func (p *Reply) Limits() (Limits, error) {
	r := p.extended()
	l := Limits{
		Packet:  r.uint64("packet length"),
		Read:    r.uint64("read length"),
		Write:   r.uint64("write length"),
		Handles: r.uint64("open handles"),
	}
	if err := p.check(&r, ExtLimits); err != nil {
		return Limits{}, err
	}
	return l, nil
}

// AppendLimitsReply appends that reply.
func AppendLimitsReply(b []byte, id uint32, l Limits) []byte {
	b, at := begin(b, TypeExtendedReply, id)
	b = appendUint64(b, l.Packet)
	b = appendUint64(b, l.Read)
	b = appendUint64(b, l.Write)
	b = appendUint64(b, l.Handles)
	return end(b, at)
}

// Strings are strings one after the other, as they came. All have been checked.
type Strings []byte

// All yields each in its turn.
func (s Strings) All() iter.Seq[[]byte] {
	return func(yield func(s []byte) bool) {
		r := reader{b: s}
		for len(r.b) > 0 {
			if one := r.bytes("", MaxPacket); r.failed() || !yield(one) {
				return
			}
		}
	}
}

// UsersGroups reads the reply to users-groups-by-id@openssh.com (PROTOCOL,
// section 4.12): a name for each number, in the order asked, and empty where the
// server has none. It may lie about how many there are.
func (p *Reply) UsersGroups() (users, groups Strings, err error) {
	r := p.extended()
	users = r.strings("users")
	groups = r.strings("groups")
	if err := p.check(&r, ExtUsersGroupsByID); err != nil {
		return nil, nil, err
	}
	return users, groups, nil
}

// strings takes a string that is made of strings.
func (r *reader) strings(field string) Strings {
	b := r.bytes(field, MaxPacket)
	inner := reader{b: b}
	for len(inner.b) > 0 {
		inner.bytes(field, MaxPacket)
	}
	if inner.failed() {
		r.fail(inner.field, "name "+inner.problem)
		return nil
	}
	return Strings(b)
}

// AppendUsersGroupsReply appends that reply.
func AppendUsersGroupsReply(b []byte, id uint32, users, groups []string) []byte {
	b, at := begin(b, TypeExtendedReply, id)
	for _, names := range [...][]string{users, groups} {
		length := 0
		for _, name := range names {
			length += 4 + len(name)
		}
		b = appendUint32(b, uint32(length))
		for _, name := range names {
			b = appendString(b, name)
		}
	}
	return end(b, at)
}

// CheckFile reads the reply to any of the three check-file: the hash that was
// chosen, and its values one after the other, at least one byte. How long one
// is follows from the algorithm, which is for the driver to know.
//
// The draft has just that; paramiko says "check-file" first, and no hash is
// called so.
func (p *Reply) CheckFile() (algorithm, hashes []byte, err error) {
	r := p.extended()
	algorithm = r.bytes("hash algorithm", maxAlgorithms)
	if string(algorithm) == extensions[ExtCheckFile].Name {
		algorithm = r.bytes("hash algorithm", maxAlgorithms)
	}
	if len(r.b) == 0 {
		r.fail("hashes", "none")
	}
	hashes = r.b
	if err := p.check(&r, 0); err != nil {
		return nil, nil, err
	}
	return algorithm, hashes, nil
}

// AppendCheckFileReply appends that reply, to check-file-handle or
// check-file-name.
func AppendCheckFileReply(b []byte, id uint32, algorithm string, hashes []byte) []byte {
	b, at := begin(b, TypeExtendedReply, id)
	b = append(appendString(b, algorithm), hashes...)
	return end(b, at)
}

// AppendOldCheckFileReply appends that reply, to check-file: clients that ask for that
// passes over its name.
func AppendOldCheckFileReply(b []byte, id uint32, algorithm string, hashes []byte) []byte {
	b, at := begin(b, TypeExtendedReply, id)
	b = appendString(b, extensions[ExtCheckFile].Name)
	b = append(appendString(b, algorithm), hashes...)
	return end(b, at)
}

// extended begins to read what EXTENDED_REPLY holds.
func (p *Reply) extended() reader {
	r := reader{b: p.Extended}
	if p.Type != TypeExtendedReply {
		r.fail("type", "not an EXTENDED_REPLY")
	}
	return r
}

// check returns what went wrong with it, if anything. The extension is zero if
// there are two with that reply.
func (p *Reply) check(r *reader, e Extension) error {
	if !r.failed() {
		return nil
	}
	err := r.error(Header{Type: p.Type, ID: p.ID})
	err.Extension = e
	return err
}
