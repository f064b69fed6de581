package wire

import "iter"

// The content of an EXTENDED_REPLY depends on the extended request, which only the driver knows. So
// the driver calls the method for that request.

// StatVFS describes the space of a file system. It is the reply to statvfs@openssh.com and
// fstatvfs@openssh.com (PROTOCOL, section 4.4). The fields are those of POSIX statvfs.
type StatVFS struct {
	BlockSize       uint64 // f_bsize: bytes, the unit for reading and writing
	FragmentSize    uint64 // f_frsize: bytes, the unit of the three fields below
	Blocks          uint64 // f_blocks
	FreeBlocks      uint64 // f_bfree
	AvailableBlocks uint64 // f_bavail: without the blocks reserved for root
	Files           uint64 // f_files: inodes
	FreeFiles       uint64 // f_ffree
	AvailableFiles  uint64 // f_favail: without the inodes reserved for root
	ID              uint64 // f_fsid
	Flags           uint64 // f_flag: StatVFSReadOnly and others
	MaxName         uint64 // f_namemax: bytes
}

// StatVFSReadOnly is the bit of StatVFS.Flags that forbids writing.
const StatVFSReadOnly uint64 = 1

// fields returns pointers to all fields, in the order in which they are sent.
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

// AppendStatVFSReply appends the reply to statvfs@openssh.com or fstatvfs@openssh.com.
func AppendStatVFSReply(b []byte, id uint32, v StatVFS) []byte {
	b, at := begin(b, TypeExtendedReply, id)
	for _, f := range v.fields() {
		b = appendUint64(b, *f)
	}
	return end(b, at)
}

// Limits holds the limits of a server, the reply to limits@openssh.com (PROTOCOL, section 4.8).
// Zero means that the server states no limit.
type Limits struct {
	Packet  uint64 // bytes in a packet, without its length field
	Read    uint64 // bytes that one READ may request
	Write   uint64 // bytes of data that one WRITE may carry
	Handles uint64 // handles that may be open at a time
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

// AppendLimitsReply appends the reply to limits@openssh.com.
func AppendLimitsReply(b []byte, id uint32, l Limits) []byte {
	b, at := begin(b, TypeExtendedReply, id)
	b = appendUint64(b, l.Packet)
	b = appendUint64(b, l.Read)
	b = appendUint64(b, l.Write)
	b = appendUint64(b, l.Handles)
	return end(b, at)
}

// Strings holds consecutive strings as received. Their lengths have been checked.
type Strings []byte

// All yields each string in turn.
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

// UsersGroups reads the reply to users-groups-by-id@openssh.com (PROTOCOL, section 4.12): a name
// for each numeric ID, in the order of the request. A name is empty if the server does not know it.
// The number of names may differ from the number of IDs.
func (p *Reply) UsersGroups() (users, groups Strings, err error) {
	r := p.extended()
	users = r.strings("users")
	groups = r.strings("groups")
	if err := p.check(&r, ExtUsersGroupsByID); err != nil {
		return nil, nil, err
	}
	return users, groups, nil
}

// strings reads a string whose content is a sequence of strings.
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

// AppendUsersGroupsReply appends the reply to users-groups-by-id@openssh.com.
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

// CheckFile reads the reply to any of the three check-file requests. It returns the chosen
// algorithm, and the concatenated hashes, which are at least one byte. The length of one hash
// follows from the algorithm, which the driver has to know.
//
// The draft specifies only these two fields. paramiko sends "check-file" in front of them. No hash
// has this name, so CheckFile can skip it.
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

// AppendCheckFileReply appends the reply to check-file-handle or check-file-name.
func AppendCheckFileReply(b []byte, id uint32, algorithm string, hashes []byte) []byte {
	b, at := begin(b, TypeExtendedReply, id)
	b = append(appendString(b, algorithm), hashes...)
	return end(b, at)
}

// AppendOldCheckFileReply appends the reply to check-file. It begins with the name of the
// extension, which clients of check-file skip.
func AppendOldCheckFileReply(b []byte, id uint32, algorithm string, hashes []byte) []byte {
	b, at := begin(b, TypeExtendedReply, id)
	b = appendString(b, extensions[ExtCheckFile].Name)
	b = append(appendString(b, algorithm), hashes...)
	return end(b, at)
}

// extended begins to read the content of an EXTENDED_REPLY.
func (p *Reply) extended() reader {
	r := reader{b: p.Extended}
	if p.Type != TypeExtendedReply {
		r.fail("type", "not an EXTENDED_REPLY")
	}
	return r
}

// check returns an error if r found an invalid field in the reply. The argument e is the extension
// to name in the error, or zero if several extensions have this reply.
func (p *Reply) check(r *reader, e Extension) error {
	if !r.failed() {
		return nil
	}
	err := r.error(Header{Type: p.Type, ID: p.ID})
	err.Extension = e
	return err
}
