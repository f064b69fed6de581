package wire

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// again appends the request from which q was parsed.
func (q Request) again(b []byte) []byte {
	path, handle := string(q.Path), string(q.Handle)
	switch q.Type {
	case TypeInit:
		return AppendInit(b, q.Version)
	case TypeOpen:
		return AppendOpen(b, q.ID, path, q.Flags, q.Attrs)
	case TypeClose:
		return AppendClose(b, q.ID, handle)
	case TypeRead:
		return AppendRead(b, q.ID, handle, q.Offset, uint32(q.Length))
	case TypeWrite:
		return AppendWrite(b, q.ID, handle, q.Offset, q.Data)
	case TypeLstat:
		return AppendLstat(b, q.ID, path)
	case TypeFstat:
		return AppendFstat(b, q.ID, handle)
	case TypeSetstat:
		return AppendSetstat(b, q.ID, path, q.Attrs)
	case TypeFsetstat:
		return AppendFsetstat(b, q.ID, handle, q.Attrs)
	case TypeOpendir:
		return AppendOpendir(b, q.ID, path)
	case TypeReaddir:
		return AppendReaddir(b, q.ID, handle)
	case TypeRemove:
		return AppendRemove(b, q.ID, path)
	case TypeMkdir:
		return AppendMkdir(b, q.ID, path, q.Attrs)
	case TypeRmdir:
		return AppendRmdir(b, q.ID, path)
	case TypeRealpath:
		return AppendRealpath(b, q.ID, path)
	case TypeStat:
		return AppendStat(b, q.ID, path)
	case TypeRename:
		return AppendRename(b, q.ID, path, string(q.NewPath))
	case TypeReadlink:
		return AppendReadlink(b, q.ID, path)
	case TypeSymlink:
		return AppendSymlink(b, q.ID, string(q.Target), path)
	}
	switch q.Extension {
	case ExtPosixRename:
		return AppendPosixRename(b, q.ID, path, string(q.NewPath))
	case ExtStatVFS:
		return AppendStatVFS(b, q.ID, path)
	case ExtFstatVFS:
		return AppendFstatVFS(b, q.ID, handle)
	case ExtHardlink:
		return AppendHardlink(b, q.ID, path, string(q.NewPath))
	case ExtFsync:
		return AppendFsync(b, q.ID, handle)
	case ExtLsetstat:
		return AppendLsetstat(b, q.ID, path, q.Attrs)
	case ExtLimits:
		return AppendLimits(b, q.ID)
	case ExtExpandPath:
		return AppendExpandPath(b, q.ID, path)
	case ExtCopyData:
		return AppendCopyData(b, q.ID, handle, q.Offset, q.Length, string(q.ToHandle), q.ToOffset)
	case ExtHomeDirectory:
		return AppendHomeDirectory(b, q.ID, string(q.User))
	case ExtUsersGroupsByID:
		return AppendUsersGroupsByID(b, q.ID, slices.Collect(q.Users.All()), slices.Collect(q.Groups.All()))
	case ExtCheckFileHandle:
		return AppendCheckFileHandle(b, q.ID, handle, string(q.Algorithms), q.Offset, q.Length, q.BlockSize)
	case ExtCheckFileName:
		return AppendCheckFileName(b, q.ID, path, string(q.Algorithms), q.Offset, q.Length, q.BlockSize)
	case ExtCheckFile:
		return AppendCheckFile(b, q.ID, handle, string(q.Algorithms), q.Offset, q.Length, q.BlockSize)
	}
	panic("no request: " + q.Type.String())
}

// again appends the reply from which p was parsed. e is the extension of the request that it
// answers, if any. The language of a STATUS is lost, because the package never sends one.
func (p *Reply) again(b []byte, e Extension) ([]byte, error) {
	switch p.Type {
	case TypeVersion:
		var pairs []Pair
		for name, data := range p.Pairs.All() {
			pairs = append(pairs, Pair{string(name), string(data)})
		}
		return AppendVersion(b, p.Version, pairs), nil
	case TypeStatus:
		return AppendStatus(b, p.ID, p.Status, string(p.Message)), nil
	case TypeHandle:
		return AppendHandle(b, p.ID, string(p.Handle)), nil
	case TypeData:
		return AppendData(b, p.ID, p.Data), nil
	case TypeName:
		at := len(b)
		b = AppendNames(b, p.ID)
		for e := range p.Names.All() {
			b = AppendEntry(b, at, string(e.Name), e.Long, e.Attrs)
		}
		return b, nil
	case TypeAttrs:
		return AppendAttrs(b, p.ID, p.Attrs), nil
	}
	switch e {
	case ExtStatVFS, ExtFstatVFS:
		v, err := p.StatVFS()
		return AppendStatVFSReply(b, p.ID, v), err
	case ExtLimits:
		l, err := p.Limits()
		return AppendLimitsReply(b, p.ID, l), err
	case ExtUsersGroupsByID:
		users, groups, err := p.UsersGroups()
		return AppendUsersGroupsReply(b, p.ID, users.list(), groups.list()), err
	case ExtCheckFileHandle, ExtCheckFileName, ExtCheckFile:
		algorithm, hashes, err := p.CheckFile()
		if bytes.HasPrefix(p.Extended, []byte("\x00\x00\x00\x0acheck-file")) {
			return AppendOldCheckFileReply(b, p.ID, string(algorithm), hashes), err
		}
		return AppendCheckFileReply(b, p.ID, string(algorithm), hashes), err
	}
	return nil, fmt.Errorf("no reply to %v: %v", e, p.Type)
}

func (s Strings) list() (list []string) {
	for one := range s.All() {
		list = append(list, string(one))
	}
	return list
}

// text describes all fields of a request that are not zero.
func (q Request) text() string {
	var s text
	s.add("", q.Type)
	if q.Extension != 0 {
		s.add("", q.Extension)
	}
	s.add("id", q.ID)
	s.add("version", q.Version)
	s.add("handle", q.Handle)
	s.add("path", q.Path)
	s.add("new path", q.NewPath)
	s.add("target", q.Target)
	s.add("user", q.User)
	s.add("algorithms", q.Algorithms)
	s.add("flags", q.Flags)
	s.add("offset", q.Offset)
	s.add("length", q.Length)
	s.add("to handle", q.ToHandle)
	s.add("to offset", q.ToOffset)
	s.add("block size", q.BlockSize)
	s.add("data", q.Data)
	s.add("users", slices.Collect(q.Users.All()))
	s.add("groups", slices.Collect(q.Groups.All()))
	s.attrs(q.Attrs)
	return strings.Join(s, " ")
}

// text describes all fields of a reply. e is the extension of the request that it answers, if any.
func (p *Reply) text(e Extension) (string, error) {
	var s text
	s.add("", p.Type)
	if e != 0 {
		s.add("", e)
	}
	s.add("id", p.ID)
	s.add("version", p.Version)
	for name, data := range p.Pairs.All() {
		s = append(s, fmt.Sprintf("%s %q", name, data))
	}
	if p.Type == TypeStatus {
		s = append(s, fmt.Sprintf("status %d", uint32(p.Status)))
	}
	s.add("message", p.Message)
	s.add("language", p.Language)
	s.add("handle", p.Handle)
	s.add("data", p.Data)
	for e := range p.Names.All() {
		s = append(s, fmt.Sprintf("name %q", e.Name))
		s.add("long", e.Long)
		s.attrs(e.Attrs)
	}
	s.attrs(p.Attrs)
	var err error
	switch e {
	case ExtStatVFS, ExtFstatVFS:
		var v StatVFS
		v, err = p.StatVFS()
		for _, f := range v.fields() {
			s = append(s, fmt.Sprint(*f))
		}
	case ExtLimits:
		var l Limits
		l, err = p.Limits()
		s.add("packet", l.Packet)
		s.add("read", l.Read)
		s.add("write", l.Write)
		s.add("handles", l.Handles)
	case ExtUsersGroupsByID:
		var users, groups Strings
		users, groups, err = p.UsersGroups()
		s = append(s, fmt.Sprintf("users %q groups %q", users.list(), groups.list()))
	case ExtCheckFileHandle, ExtCheckFileName, ExtCheckFile:
		var algorithm, hashes []byte
		algorithm, hashes, err = p.CheckFile()
		s.add("algorithm", algorithm)
		s = append(s, fmt.Sprintf("hashes %x", hashes))
	}
	return strings.Join(s, " "), err
}

// A text is a list of field names, each with its value.
type text []string

func (s *text) add(name string, value any) {
	v := fmt.Sprint(value)
	if b, ok := value.([]byte); ok && len(b) == 0 {
		return
	} else if ok {
		v = fmt.Sprintf("%q", b)
	}
	if name == "" {
		*s = append(*s, v)
	} else if v != "0" && v != "[]" && (name != "flags" || v != "0x0") {
		*s = append(*s, name+" "+v)
	}
}

func (s *text) attrs(a Attrs) {
	if a.Has(AttrSize) {
		*s = append(*s, fmt.Sprintf("size %d", a.Size))
	}
	if a.Has(AttrOwner) {
		*s = append(*s, fmt.Sprintf("owner %d:%d", a.UID, a.GID))
	}
	if a.Has(AttrMode) {
		*s = append(*s, fmt.Sprintf("mode %v %o", a.Mode, uint32(a.Mode)))
	}
	if a.Has(AttrTimes) {
		*s = append(*s, fmt.Sprintf("times %d %d", a.Atime, a.Mtime))
	}
}

// resize sets a packet's length field to its actual length.
func resize(b []byte) []byte { return end(b, 0) }

func mustParseReply(t *testing.T, b []byte) Reply {
	t.Helper()
	p, err := ParseReply(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
