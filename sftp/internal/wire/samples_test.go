package wire

import (
	"strings"
	"testing"
)

// someAttrs has every attribute, and a different value in each field.
var someAttrs = Attrs{
	Flags: AttrSize | AttrOwner | AttrMode | AttrTimes,
	Size:  0x0102030405060708, UID: 1000, GID: 100, Mode: ModeRegular | 0o644, Atime: 1_700_000_000, Mtime: 1_600_000_000,
}

// requests contains every request, with its packet and the expected result.
var requests = []struct {
	packet []byte
	want   Request
}{
	{AppendInit(nil, 3), Request{Type: TypeInit, Version: 3}},
	{AppendOpen(nil, 1, "dir/a", OpenWrite|OpenCreate|OpenTruncate, someAttrs),
		Request{Type: TypeOpen, ID: 1, Path: []byte("dir/a"), Flags: OpenWrite | OpenCreate | OpenTruncate, Attrs: someAttrs}},
	{AppendOpen(nil, 1<<32-1, "", OpenRead, Attrs{}), Request{Type: TypeOpen, ID: 1<<32 - 1, Flags: OpenRead}},
	{AppendClose(nil, 2, "\x00\x00\x00\x01"), Request{Type: TypeClose, ID: 2, Handle: []byte("\x00\x00\x00\x01")}},
	{AppendRead(nil, 3, "h", maxOffset, 1<<32-1),
		Request{Type: TypeRead, ID: 3, Handle: []byte("h"), Offset: maxOffset, Length: 1<<32 - 1}},
	{AppendWrite(nil, 4, "h", 1<<40, []byte("data")),
		Request{Type: TypeWrite, ID: 4, Handle: []byte("h"), Offset: 1 << 40, Data: []byte("data")}},
	{AppendWrite(nil, 4, strings.Repeat("h", MaxHandle), 0, nil),
		Request{Type: TypeWrite, ID: 4, Handle: []byte(strings.Repeat("h", MaxHandle))}},
	{AppendLstat(nil, 5, "a"), Request{Type: TypeLstat, ID: 5, Path: []byte("a")}},
	{AppendFstat(nil, 6, "h"), Request{Type: TypeFstat, ID: 6, Handle: []byte("h")}},
	{AppendSetstat(nil, 7, "a", someAttrs), Request{Type: TypeSetstat, ID: 7, Path: []byte("a"), Attrs: someAttrs}},
	{AppendFsetstat(nil, 8, "h", someAttrs), Request{Type: TypeFsetstat, ID: 8, Handle: []byte("h"), Attrs: someAttrs}},
	{AppendOpendir(nil, 9, "/"), Request{Type: TypeOpendir, ID: 9, Path: []byte("/")}},
	{AppendReaddir(nil, 10, "h"), Request{Type: TypeReaddir, ID: 10, Handle: []byte("h")}},
	{AppendRemove(nil, 11, "a"), Request{Type: TypeRemove, ID: 11, Path: []byte("a")}},
	{AppendMkdir(nil, 12, "d", someAttrs), Request{Type: TypeMkdir, ID: 12, Path: []byte("d"), Attrs: someAttrs}},
	{AppendRmdir(nil, 13, "d"), Request{Type: TypeRmdir, ID: 13, Path: []byte("d")}},
	{AppendRealpath(nil, 14, "."), Request{Type: TypeRealpath, ID: 14, Path: []byte(".")}},
	{AppendStat(nil, 15, strings.Repeat("p", MaxPath)),
		Request{Type: TypeStat, ID: 15, Path: []byte(strings.Repeat("p", MaxPath))}},
	{AppendRename(nil, 16, "old", "new"), Request{Type: TypeRename, ID: 16, Path: []byte("old"), NewPath: []byte("new")}},
	{AppendReadlink(nil, 17, "l"), Request{Type: TypeReadlink, ID: 17, Path: []byte("l")}},
	{AppendSymlink(nil, 18, "../target", "l"),
		Request{Type: TypeSymlink, ID: 18, Target: []byte("../target"), Path: []byte("l")}},

	{AppendPosixRename(nil, 20, "old", "new"),
		Request{Type: TypeExtended, Extension: ExtPosixRename, ID: 20, Path: []byte("old"), NewPath: []byte("new")}},
	{AppendStatVFS(nil, 21, "a"), Request{Type: TypeExtended, Extension: ExtStatVFS, ID: 21, Path: []byte("a")}},
	{AppendFstatVFS(nil, 22, "h"), Request{Type: TypeExtended, Extension: ExtFstatVFS, ID: 22, Handle: []byte("h")}},
	{AppendHardlink(nil, 23, "old", "new"),
		Request{Type: TypeExtended, Extension: ExtHardlink, ID: 23, Path: []byte("old"), NewPath: []byte("new")}},
	{AppendFsync(nil, 24, "h"), Request{Type: TypeExtended, Extension: ExtFsync, ID: 24, Handle: []byte("h")}},
	{AppendLsetstat(nil, 25, "l", someAttrs),
		Request{Type: TypeExtended, Extension: ExtLsetstat, ID: 25, Path: []byte("l"), Attrs: someAttrs}},
	{AppendLimits(nil, 26), Request{Type: TypeExtended, Extension: ExtLimits, ID: 26}},
	{AppendExpandPath(nil, 27, "~/a"), Request{Type: TypeExtended, Extension: ExtExpandPath, ID: 27, Path: []byte("~/a")}},
	{AppendCopyData(nil, 28, "from", 1, 2, "to", 3), Request{Type: TypeExtended, Extension: ExtCopyData, ID: 28,
		Handle: []byte("from"), Offset: 1, Length: 2, ToHandle: []byte("to"), ToOffset: 3}},
	{AppendHomeDirectory(nil, 29, "ann"), Request{Type: TypeExtended, Extension: ExtHomeDirectory, ID: 29, User: []byte("ann")}},
	{AppendUsersGroupsByID(nil, 30, []uint32{0, 1000}, []uint32{1<<32 - 1}), Request{Type: TypeExtended, Extension: ExtUsersGroupsByID,
		ID: 30, Users: IDs("\x00\x00\x00\x00\x00\x00\x03\xe8"), Groups: IDs("\xff\xff\xff\xff")}},
	{AppendUsersGroupsByID(nil, 31, nil, nil), Request{Type: TypeExtended, Extension: ExtUsersGroupsByID, ID: 31}},
	{AppendCheckFileHandle(nil, 32, "h", "sha256,md5", 10, 20, 256), Request{Type: TypeExtended, Extension: ExtCheckFileHandle, ID: 32,
		Handle: []byte("h"), Algorithms: []byte("sha256,md5"), Offset: 10, Length: 20, BlockSize: 256}},
	{AppendCheckFileName(nil, 33, "a", "sha256", 0, 0, 0), Request{Type: TypeExtended, Extension: ExtCheckFileName, ID: 33,
		Path: []byte("a"), Algorithms: []byte("sha256")}},
	{AppendCheckFile(nil, 34, "h", "sha256", 1<<40, 1, 512), Request{Type: TypeExtended, Extension: ExtCheckFile, ID: 34,
		Handle: []byte("h"), Algorithms: []byte("sha256"), Offset: 1 << 40, Length: 1, BlockSize: 512}},
}

// replies contains every reply. For an extended reply, extension is the extension of the request
// that it answers.
var replies = []struct {
	packet    []byte
	extension Extension
	want      string // in the format of Reply.text
}{
	{AppendVersion(nil, 3, nil), 0, `VERSION version 3`},
	{AppendVersion(nil, 3, AllExtensions.Pairs()), 0, `VERSION version 3 posix-rename@openssh.com "1" statvfs@openssh.com "2" ` +
		`fstatvfs@openssh.com "2" hardlink@openssh.com "1" fsync@openssh.com "1" lsetstat@openssh.com "1" limits@openssh.com "1" ` +
		`expand-path@openssh.com "1" copy-data "1" home-directory "1" users-groups-by-id@openssh.com "1" ` +
		`check-file-handle "1" check-file-name "1" check-file "1"`},
	{AppendStatus(nil, 1, OK, ""), 0, `STATUS id 1 status 0 message "success"`},
	{AppendStatus(nil, 2, Failure, "no space left on device"), 0, `STATUS id 2 status 4 message "no space left on device"`},
	{AppendHandle(nil, 3, "\x00\x00\x00\x01"), 0, `HANDLE id 3 handle "\x00\x00\x00\x01"`},
	{AppendData(nil, 4, []byte("data")), 0, `DATA id 4 data "data"`},
	{AppendData(nil, 5, nil), 0, `DATA id 5`},
	{AppendName(nil, 6, "/home/ann"), 0, `NAME id 6 name "/home/ann" long "/home/ann"`},
	{AppendNames(nil, 7), 0, `NAME id 7`},
	{AppendEntry(AppendEntry(AppendNames(nil, 8), 0, "a", []byte("- a"), someAttrs), 0, "b", nil, Attrs{Flags: AttrMode, Mode: ModeDir | 0o1777}), 0,
		`NAME id 8 name "a" long "- a" size 72623859790382856 owner 1000:100 mode -rw-r--r-- 100644 times 1700000000 1600000000 ` +
			`name "b" mode drwxrwxrwt 41777`},
	{AppendAttrs(nil, 9, someAttrs), 0,
		`ATTRS id 9 size 72623859790382856 owner 1000:100 mode -rw-r--r-- 100644 times 1700000000 1600000000`},
	{AppendAttrs(nil, 10, Attrs{}), 0, `ATTRS id 10`},
	{AppendStatVFSReply(nil, 11, StatVFS{1, 2, 3, 4, 5, 6, 7, 8, 9, StatVFSReadOnly, 1<<64 - 1}), ExtStatVFS,
		`EXTENDED_REPLY statvfs@openssh.com id 11 1 2 3 4 5 6 7 8 9 1 18446744073709551615`},
	{AppendLimitsReply(nil, 12, Limits{Packet: 1 << 18, Read: CommonData, Write: CommonData + 1, Handles: 1019}), ExtLimits,
		`EXTENDED_REPLY limits@openssh.com id 12 packet 262144 read 261120 write 261121 handles 1019`},
	{AppendUsersGroupsReply(nil, 13, []string{"root", "", "ann"}, []string{"wheel"}), ExtUsersGroupsByID,
		`EXTENDED_REPLY users-groups-by-id@openssh.com id 13 users ["root" "" "ann"] groups ["wheel"]`},
	{AppendUsersGroupsReply(nil, 14, nil, nil), ExtUsersGroupsByID,
		`EXTENDED_REPLY users-groups-by-id@openssh.com id 14 users [] groups []`},
	{AppendCheckFileReply(nil, 15, "sha1", []byte("\x01\x02")), ExtCheckFileName,
		`EXTENDED_REPLY check-file-name id 15 algorithm "sha1" hashes 0102`},
	{AppendOldCheckFileReply(nil, 16, "sha1", []byte("\x01\x02")), ExtCheckFile,
		`EXTENDED_REPLY check-file id 16 algorithm "sha1" hashes 0102`},
}

// Every request and reply is parsed as it was written, whatever precedes it in the buffer, and is
// the same when it is written again.

func TestRequests(t *testing.T) {
	seen := map[string]bool{}
	for _, test := range requests {
		name := test.want.text()
		q, err := ParseRequest(test.packet)
		if err != nil || q.text() != name {
			t.Errorf("%.200s: got %.200s, %v", name, q.text(), err)
			continue
		}
		if b := q.again([]byte("before")); string(b) != "before"+string(test.packet) {
			t.Errorf("%.200s: %x became %x", name, test.packet, b)
		}
		seen[q.Type.String()] = true
		seen[q.Extension.String()] = true
	}
	for kind := TypeInit; kind <= TypeExtended; kind++ {
		if reply := kind == TypeVersion || kind > TypeSymlink && kind < TypeExtended; !reply && !seen[kind.String()] {
			t.Errorf("no %v", kind)
		}
	}
	for e := Extension(1); e < numExtensions; e++ {
		if !seen[e.String()] {
			t.Errorf("no %v", e)
		}
	}
}

func TestReplies(t *testing.T) {
	for _, test := range replies {
		p, err := ParseReply(test.packet)
		if err != nil {
			t.Errorf("%s: %v", test.want, err)
			continue
		}
		if got, err := p.text(test.extension); err != nil || got != test.want {
			t.Errorf("want %s,\n got %s, %v", test.want, got, err)
		}
		if b, err := p.again([]byte("before"), test.extension); err != nil || string(b) != "before"+string(test.packet) {
			t.Errorf("%s: %x became %x, %v", test.want, test.packet, b, err)
		}
	}
}
