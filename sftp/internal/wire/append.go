package wire

// The requests of the draft, in the order of their types. A handle is one that
// the server gave. A path of more than MaxPath bytes is sent as it is, and most
// servers refuse it. Offsets and lengths are not below zero.

// AppendOpen appends an OPEN, answered by HANDLE or STATUS. Of the attributes,
// servers heed the permissions, if a file is made.
func AppendOpen(b []byte, id uint32, path string, flags OpenFlags, a Attrs) []byte {
	b, at := begin(b, TypeOpen, id)
	b = appendString(b, path)
	b = appendUint32(b, uint32(flags))
	b = appendAttrs(b, a)
	return end(b, at)
}

// AppendClose appends a CLOSE, answered by STATUS. The handle is gone even if
// that is an error.
func AppendClose(b []byte, id uint32, handle string) []byte {
	return appendOne(b, TypeClose, id, handle)
}

// AppendRead appends a READ, answered by DATA of at most length bytes, or by
// STATUS, with EOF at the end of the file.
func AppendRead(b []byte, id uint32, handle string, offset int64, length uint32) []byte {
	b, at := begin(b, TypeRead, id)
	b = appendString(b, handle)
	b = appendUint64(b, uint64(offset))
	b = appendUint32(b, length)
	return end(b, at)
}

// AppendWrite appends a WRITE, answered by STATUS.
func AppendWrite(b []byte, id uint32, handle string, offset int64, data []byte) []byte {
	return append(AppendWriteHeader(b, id, handle, offset, len(data)), data...)
}

// AppendWriteHeader appends a WRITE without its n bytes of data, which have to
// follow. To read a file straight into a packet, leave WriteHeaderSize bytes
// free, read behind them, and then append the header in front:
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

// WriteHeaderSize is how many bytes precede the data in a WRITE.
func WriteHeaderSize(handle string) int { return HeaderSize + 4 + len(handle) + 8 + 4 }

// AppendLstat appends an LSTAT, answered by ATTRS or STATUS. It does not follow
// a symbolic link.
func AppendLstat(b []byte, id uint32, path string) []byte { return appendOne(b, TypeLstat, id, path) }

// AppendFstat appends an FSTAT, answered by ATTRS or STATUS.
func AppendFstat(b []byte, id uint32, handle string) []byte {
	return appendOne(b, TypeFstat, id, handle)
}

// AppendSetstat appends a SETSTAT, answered by STATUS.
func AppendSetstat(b []byte, id uint32, path string, a Attrs) []byte {
	return appendOneAttrs(b, TypeSetstat, id, path, a)
}

// AppendFsetstat appends an FSETSTAT, answered by STATUS.
func AppendFsetstat(b []byte, id uint32, handle string, a Attrs) []byte {
	return appendOneAttrs(b, TypeFsetstat, id, handle, a)
}

// AppendOpendir appends an OPENDIR, answered by HANDLE or STATUS.
func AppendOpendir(b []byte, id uint32, path string) []byte {
	return appendOne(b, TypeOpendir, id, path)
}

// AppendReaddir appends a READDIR, answered by NAME with some of the names, or
// by STATUS, with EOF after the last.
func AppendReaddir(b []byte, id uint32, handle string) []byte {
	return appendOne(b, TypeReaddir, id, handle)
}

// AppendRemove appends a REMOVE, answered by STATUS. It is not for directories.
func AppendRemove(b []byte, id uint32, path string) []byte {
	return appendOne(b, TypeRemove, id, path)
}

// AppendMkdir appends a MKDIR, answered by STATUS.
func AppendMkdir(b []byte, id uint32, path string, a Attrs) []byte {
	return appendOneAttrs(b, TypeMkdir, id, path, a)
}

// AppendRmdir appends an RMDIR, answered by STATUS.
func AppendRmdir(b []byte, id uint32, path string) []byte { return appendOne(b, TypeRmdir, id, path) }

// AppendRealpath appends a REALPATH, answered by NAME with one name or STATUS.
func AppendRealpath(b []byte, id uint32, path string) []byte {
	return appendOne(b, TypeRealpath, id, path)
}

// AppendStat appends a STAT, answered by ATTRS or STATUS.
func AppendStat(b []byte, id uint32, path string) []byte { return appendOne(b, TypeStat, id, path) }

// AppendRename appends a RENAME, answered by STATUS. It fails if there is
// something at the new path; [AppendPosixRename] replaces it.
func AppendRename(b []byte, id uint32, path, newPath string) []byte {
	b, at := begin(b, TypeRename, id)
	b = appendString(appendString(b, path), newPath)
	return end(b, at)
}

// AppendReadlink appends a READLINK, answered by NAME with one name or STATUS.
func AppendReadlink(b []byte, id uint32, path string) []byte {
	return appendOne(b, TypeReadlink, id, path)
}

// AppendSymlink appends a SYMLINK, answered by STATUS, that makes a link at
// path which says target. It has these in OpenSSH's order (PROTOCOL, section
// 4.1), not in the draft's.
func AppendSymlink(b []byte, id uint32, target, path string) []byte {
	b, at := begin(b, TypeSymlink, id)
	b = appendString(appendString(b, target), path)
	return end(b, at)
}

// The extended requests.

// AppendPosixRename appends a posix-rename@openssh.com, answered by STATUS. It
// replaces what is at the new path.
func AppendPosixRename(b []byte, id uint32, path, newPath string) []byte {
	b, at := beginExtended(b, ExtPosixRename, id)
	b = appendString(appendString(b, path), newPath)
	return end(b, at)
}

// AppendStatVFS appends a statvfs@openssh.com, answered by EXTENDED_REPLY (see
// [Reply.StatVFS]) or STATUS.
func AppendStatVFS(b []byte, id uint32, path string) []byte {
	return appendExtendedOne(b, ExtStatVFS, id, path)
}

// AppendFstatVFS appends an fstatvfs@openssh.com, answered likewise.
func AppendFstatVFS(b []byte, id uint32, handle string) []byte {
	return appendExtendedOne(b, ExtFstatVFS, id, handle)
}

// AppendHardlink appends a hardlink@openssh.com, answered by STATUS. The file
// at path gets the new one too.
func AppendHardlink(b []byte, id uint32, path, newPath string) []byte {
	b, at := beginExtended(b, ExtHardlink, id)
	b = appendString(appendString(b, path), newPath)
	return end(b, at)
}

// AppendFsync appends an fsync@openssh.com, answered by STATUS.
func AppendFsync(b []byte, id uint32, handle string) []byte {
	return appendExtendedOne(b, ExtFsync, id, handle)
}

// AppendLsetstat appends an lsetstat@openssh.com, answered by STATUS. OpenSSH
// refuses it with a size.
func AppendLsetstat(b []byte, id uint32, path string, a Attrs) []byte {
	b, at := beginExtended(b, ExtLsetstat, id)
	b = appendAttrs(appendString(b, path), a)
	return end(b, at)
}

// AppendLimits appends a limits@openssh.com, answered by EXTENDED_REPLY (see
// [Reply.Limits]).
func AppendLimits(b []byte, id uint32) []byte {
	b, at := beginExtended(b, ExtLimits, id)
	return end(b, at)
}

// AppendExpandPath appends an expand-path@openssh.com, answered by NAME with
// one name or STATUS.
func AppendExpandPath(b []byte, id uint32, path string) []byte {
	return appendExtendedOne(b, ExtExpandPath, id, path)
}

// AppendCopyData appends a copy-data, answered by STATUS when all is copied. A
// length of 0 means up to the end of the file read.
func AppendCopyData(b []byte, id uint32, handle string, offset, length int64, toHandle string, toOffset int64) []byte {
	b, at := beginExtended(b, ExtCopyData, id)
	b = appendString(b, handle)
	b = appendUint64(b, uint64(offset))
	b = appendUint64(b, uint64(length))
	b = appendString(b, toHandle)
	b = appendUint64(b, uint64(toOffset))
	return end(b, at)
}

// AppendHomeDirectory appends a home-directory, answered by NAME with one name
// or STATUS. An empty user is the one logged in, which OpenSSH does not know.
func AppendHomeDirectory(b []byte, id uint32, user string) []byte {
	return appendExtendedOne(b, ExtHomeDirectory, id, user)
}

// AppendUsersGroupsByID appends a users-groups-by-id@openssh.com, answered by
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

// AppendCheckFileHandle appends a check-file-handle, answered by EXTENDED_REPLY
// (see [Reply.CheckFile]) or STATUS: hashes of length bytes from offset, one
// for each blockSize bytes. A length of 0 means up to the end of the file; a
// blockSize of 0 means one hash, and is else at least MinCheckBlock.
// Algorithms are names with commas between, the most wanted first.
func AppendCheckFileHandle(b []byte, id uint32, handle, algorithms string, offset, length int64, blockSize uint32) []byte {
	b, at := beginExtended(b, ExtCheckFileHandle, id)
	return endCheckFile(b, at, handle, algorithms, offset, length, blockSize)
}

// AppendCheckFileName appends a check-file-name, the same for a path.
func AppendCheckFileName(b []byte, id uint32, path, algorithms string, offset, length int64, blockSize uint32) []byte {
	b, at := beginExtended(b, ExtCheckFileName, id)
	return endCheckFile(b, at, path, algorithms, offset, length, blockSize)
}

// AppendCheckFile appends a check-file, which is what paramiko calls a
// check-file-handle.
func AppendCheckFile(b []byte, id uint32, handle, algorithms string, offset, length int64, blockSize uint32) []byte {
	b, at := beginExtended(b, ExtCheckFile, id)
	return endCheckFile(b, at, handle, algorithms, offset, length, blockSize)
}

// endCheckFile appends the fields of the check-file request that begins at at.
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
