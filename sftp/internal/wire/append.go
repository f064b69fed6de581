package wire

// The functions below append the requests of the draft, in the order of their types. The argument
// handle is a handle that the server returned. A path longer than MaxPath bytes is sent unchanged;
// most servers refuse it. Offsets and lengths must not be negative.

// AppendOpen appends an OPEN, which is answered by HANDLE or STATUS. Of the attributes, servers use
// only the permissions, and only if they create a file.
func AppendOpen(b []byte, id uint32, path string, flags OpenFlags, a Attrs) []byte {
	b, at := begin(b, TypeOpen, id)
	b = appendString(b, path)
	b = appendUint32(b, uint32(flags))
	b = appendAttrs(b, a)
	return end(b, at)
}

// AppendClose appends a CLOSE, which is answered by STATUS. The handle is invalid afterwards even
// if the answer is an error.
func AppendClose(b []byte, id uint32, handle string) []byte {
	return appendOne(b, TypeClose, id, handle)
}

// AppendRead appends a READ, which is answered by DATA with at most `length` bytes, or by STATUS:
// its code is EOF at the end of the file.
func AppendRead(b []byte, id uint32, handle string, offset int64, length uint32) []byte {
	b, at := begin(b, TypeRead, id)
	b = appendString(b, handle)
	b = appendUint64(b, uint64(offset))
	b = appendUint32(b, length)
	return end(b, at)
}

// AppendWrite appends a WRITE, which is answered by STATUS.
func AppendWrite(b []byte, id uint32, handle string, offset int64, data []byte) []byte {
	return append(AppendWriteHeader(b, id, handle, offset, len(data)), data...)
}

// AppendWriteHeader appends a WRITE without its n bytes of data, which must follow. To read a file
// straight into a packet, leave WriteHeaderSize bytes free, read into the bytes after them, and
// then append the header in front:
//
//	at := len(b) + WriteHeaderSize(handle)
//	n, err := file.Read(b[at:cap(b)])
//	b = AppendWriteHeader(b, id, handle, offset, n)[:at+n]
func AppendWriteHeader(b []byte, id uint32, handle string, offset int64, n int) []byte {
	b, at := begin(b, TypeWrite, id)
	b = appendString(b, handle)
	b = appendUint64(b, uint64(offset))
	b = appendUint32(b, uint32(n))
	return announce(b, at, n)
}

// WriteHeaderSize returns how many bytes precede the data in a WRITE.
func WriteHeaderSize(handle string) int { return HeaderSize + 4 + len(handle) + 8 + 4 }

// AppendLstat appends an LSTAT, which is answered by ATTRS or STATUS. It does not follow a symbolic
// link.
func AppendLstat(b []byte, id uint32, path string) []byte { return appendOne(b, TypeLstat, id, path) }

// AppendFstat appends an FSTAT, which is answered by ATTRS or STATUS.
func AppendFstat(b []byte, id uint32, handle string) []byte {
	return appendOne(b, TypeFstat, id, handle)
}

// AppendSetstat appends a SETSTAT, which is answered by STATUS.
func AppendSetstat(b []byte, id uint32, path string, a Attrs) []byte {
	return appendOneAttrs(b, TypeSetstat, id, path, a)
}

// AppendFsetstat appends an FSETSTAT, which is answered by STATUS.
func AppendFsetstat(b []byte, id uint32, handle string, a Attrs) []byte {
	return appendOneAttrs(b, TypeFsetstat, id, handle, a)
}

// AppendOpendir appends an OPENDIR, which is answered by HANDLE or STATUS.
func AppendOpendir(b []byte, id uint32, path string) []byte {
	return appendOne(b, TypeOpendir, id, path)
}

// AppendReaddir appends a READDIR, which is answered by NAME with the next names, or by STATUS: its
// code is EOF after the last name.
func AppendReaddir(b []byte, id uint32, handle string) []byte {
	return appendOne(b, TypeReaddir, id, handle)
}

// AppendRemove appends a REMOVE, which is answered by STATUS. Servers refuse it for directories.
func AppendRemove(b []byte, id uint32, path string) []byte {
	return appendOne(b, TypeRemove, id, path)
}

// AppendMkdir appends a MKDIR, which is answered by STATUS.
func AppendMkdir(b []byte, id uint32, path string, a Attrs) []byte {
	return appendOneAttrs(b, TypeMkdir, id, path, a)
}

// AppendRmdir appends an RMDIR, which is answered by STATUS.
func AppendRmdir(b []byte, id uint32, path string) []byte { return appendOne(b, TypeRmdir, id, path) }

// AppendRealpath appends a REALPATH, which is answered by NAME with one name, or by STATUS.
func AppendRealpath(b []byte, id uint32, path string) []byte {
	return appendOne(b, TypeRealpath, id, path)
}

// AppendStat appends a STAT, which is answered by ATTRS or STATUS.
func AppendStat(b []byte, id uint32, path string) []byte { return appendOne(b, TypeStat, id, path) }

// AppendRename appends a RENAME, which is answered by STATUS. The request fails if newPath exists;
// [AppendPosixRename] replaces an existing file.
func AppendRename(b []byte, id uint32, path, newPath string) []byte {
	b, at := begin(b, TypeRename, id)
	b = appendString(appendString(b, path), newPath)
	return end(b, at)
}

// AppendReadlink appends a READLINK, which is answered by NAME with one name, or by STATUS.
func AppendReadlink(b []byte, id uint32, path string) []byte {
	return appendOne(b, TypeReadlink, id, path)
}

// AppendSymlink appends a SYMLINK, which is answered by STATUS. It creates a symbolic link at path
// with the given target. The target and the path are sent in OpenSSH's order (PROTOCOL, section
// 4.1), which is the opposite of the draft's.
func AppendSymlink(b []byte, id uint32, target, path string) []byte {
	b, at := begin(b, TypeSymlink, id)
	b = appendString(appendString(b, target), path)
	return end(b, at)
}

// The functions below append the extended requests.

// AppendPosixRename appends a posix-rename@openssh.com, which is answered by STATUS. It replaces an
// existing file at newPath.
func AppendPosixRename(b []byte, id uint32, path, newPath string) []byte {
	b, at := beginExtended(b, ExtPosixRename, id)
	b = appendString(appendString(b, path), newPath)
	return end(b, at)
}

// AppendStatVFS appends a statvfs@openssh.com, which is answered by EXTENDED_REPLY (see
// [Reply.StatVFS]) or STATUS.
func AppendStatVFS(b []byte, id uint32, path string) []byte {
	return appendExtendedOne(b, ExtStatVFS, id, path)
}

// AppendFstatVFS appends an fstatvfs@openssh.com, which is answered like statvfs@openssh.com.
func AppendFstatVFS(b []byte, id uint32, handle string) []byte {
	return appendExtendedOne(b, ExtFstatVFS, id, handle)
}

// AppendHardlink appends a hardlink@openssh.com, which is answered by STATUS. It gives the file at
// path the additional name newPath.
func AppendHardlink(b []byte, id uint32, path, newPath string) []byte {
	b, at := beginExtended(b, ExtHardlink, id)
	b = appendString(appendString(b, path), newPath)
	return end(b, at)
}

// AppendFsync appends an fsync@openssh.com, which is answered by STATUS.
func AppendFsync(b []byte, id uint32, handle string) []byte {
	return appendExtendedOne(b, ExtFsync, id, handle)
}

// AppendLsetstat appends an lsetstat@openssh.com, which is answered by STATUS. OpenSSH refuses the
// request if the attributes include a size.
func AppendLsetstat(b []byte, id uint32, path string, a Attrs) []byte {
	b, at := beginExtended(b, ExtLsetstat, id)
	b = appendAttrs(appendString(b, path), a)
	return end(b, at)
}

// AppendLimits appends a limits@openssh.com, which is answered by EXTENDED_REPLY (see
// [Reply.Limits]).
func AppendLimits(b []byte, id uint32) []byte {
	b, at := beginExtended(b, ExtLimits, id)
	return end(b, at)
}

// AppendExpandPath appends an expand-path@openssh.com, which is answered by NAME with one name, or
// by STATUS.
func AppendExpandPath(b []byte, id uint32, path string) []byte {
	return appendExtendedOne(b, ExtExpandPath, id, path)
}

// AppendCopyData appends a copy-data, which is answered by STATUS when all bytes are copied. A
// length of 0 means up to the end of the source file.
func AppendCopyData(b []byte, id uint32, handle string, offset, length int64, toHandle string, toOffset int64) []byte {
	b, at := beginExtended(b, ExtCopyData, id)
	b = appendString(b, handle)
	b = appendUint64(b, uint64(offset))
	b = appendUint64(b, uint64(length))
	b = appendString(b, toHandle)
	b = appendUint64(b, uint64(toOffset))
	return end(b, at)
}

// AppendHomeDirectory appends a home-directory, which is answered by NAME with one name, or by
// STATUS. An empty string as the user means the user who is logged in; OpenSSH does not support
// that.
func AppendHomeDirectory(b []byte, id uint32, user string) []byte {
	return appendExtendedOne(b, ExtHomeDirectory, id, user)
}

// AppendUsersGroupsByID appends a users-groups-by-id@openssh.com, which is answered by
// EXTENDED_REPLY (see [Reply.UsersGroups]).
func AppendUsersGroupsByID(b []byte, id uint32, users, groups []uint32) []byte {
	b, at := beginExtended(b, ExtUsersGroupsByID, id)
	for _, ids := range [...][]uint32{users, groups} {
		b = appendUint32(b, uint32(4*len(ids)))
		for _, n := range ids {
			b = appendUint32(b, n)
		}
	}
	return end(b, at)
}

// AppendCheckFileHandle appends a check-file-handle, which is answered by EXTENDED_REPLY (see
// [Reply.CheckFile]) or STATUS. It requests the hashes of length bytes from offset on, one hash for
// each blockSize bytes. A length of 0 means up to the end of the file. A blockSize of 0 means one
// hash of everything; other values must be at least MinCheckBlock. algorithms lists the names of
// hashes, separated by commas, in the order of preference.
func AppendCheckFileHandle(b []byte, id uint32, handle, algorithms string, offset, length int64, blockSize uint32) []byte {
	b, at := beginExtended(b, ExtCheckFileHandle, id)
	return endCheckFile(b, at, handle, algorithms, offset, length, blockSize)
}

// AppendCheckFileName appends a check-file-name. It is like check-file-handle for a path.
func AppendCheckFileName(b []byte, id uint32, path, algorithms string, offset, length int64, blockSize uint32) []byte {
	b, at := beginExtended(b, ExtCheckFileName, id)
	return endCheckFile(b, at, path, algorithms, offset, length, blockSize)
}

// AppendCheckFile appends a check-file, paramiko's name for check-file-handle.
func AppendCheckFile(b []byte, id uint32, handle, algorithms string, offset, length int64, blockSize uint32) []byte {
	b, at := beginExtended(b, ExtCheckFile, id)
	return endCheckFile(b, at, handle, algorithms, offset, length, blockSize)
}

// endCheckFile appends the fields of the check-file request that begins at the index `at` of b.
func endCheckFile(b []byte, at int, file, algorithms string, offset, length int64, blockSize uint32) []byte {
	b = appendString(appendString(b, file), algorithms)
	b = appendUint64(b, uint64(offset))
	b = appendUint64(b, uint64(length))
	b = appendUint32(b, blockSize)
	return end(b, at)
}

// appendOneAttrs appends a request for one path or handle, with attributes.
func appendOneAttrs(b []byte, t Type, id uint32, s string, a Attrs) []byte {
	b, at := begin(b, t, id)
	return end(appendAttrs(appendString(b, s), a), at)
}

func beginExtended(b []byte, e Extension, id uint32) (_ []byte, at int) {
	b, at = begin(b, TypeExtended, id)
	return appendString(b, extensions[e].Name), at
}

func appendExtendedOne(b []byte, e Extension, id uint32, s string) []byte {
	b, at := beginExtended(b, e, id)
	return end(appendString(b, s), at)
}
