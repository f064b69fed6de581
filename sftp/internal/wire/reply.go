package wire

import (
	"encoding/binary"
	"iter"
)

// A Reply is an answer of a server. Its Type determines which fields are set:
//
//	VERSION           Version, Pairs
//	STATUS            Status, Message, Language
//	HANDLE            Handle
//	DATA              Data
//	NAME              Names
//	ATTRS             Attrs
//	EXTENDED_REPLY    Extended
//
// The other fields are zero. Slices refer to the bytes of the packet.
type Reply struct {
	Type     Type
	ID       uint32 // the request's id; 0 for VERSION
	Version  uint32 // the version that the server speaks
	Status   Status
	Attrs    Attrs
	Message  []byte // the server's text; older servers send none
	Language []byte // the language of Message; older servers send none
	Handle   []byte // at most MaxHandle bytes
	Data     []byte
	Names    Names
	Pairs    Pairs  // the extensions that the server announces
	Extended []byte // parsed by the method for the request's extension
}

// ParseReply parses one whole packet from a server (draft, section 7). It ignores bytes after the
// last field. An error is always an [*Error]. ParseReply does not check whether the reply fits the
// request.
func ParseReply(b []byte) (Reply, error) {
	h, err := whole(b)
	if err != nil {
		return Reply{}, err
	}
	p := Reply{Type: h.Type, ID: h.ID}
	r := reader{b: b[HeaderSize:]}
	switch h.Type {
	case TypeVersion:
		p.Version, p.ID = h.ID, 0
		p.Pairs = r.pairs()
	case TypeStatus:
		p.Status = Status(r.uint32("status"))
		if len(r.b) > 0 { // servers before version 3, and some of version 3, end the packet here
			p.Message = r.bytes("message", MaxPacket)
		}
		if len(r.b) > 0 {
			p.Language = r.bytes("language", MaxPacket)
		}
	case TypeHandle:
		p.Handle = r.handle("handle")
	case TypeData:
		p.Data = r.bytes("data", MaxPacket)
	case TypeName:
		p.Names = r.names()
	case TypeAttrs:
		p.Attrs = r.attrs()
	case TypeExtendedReply:
		p.Extended = r.b
	default:
		return Reply{}, h.unsupported("type", "not a reply")
	}
	if r.failed() {
		return Reply{}, r.error(h)
	}
	return p, nil
}

// Err returns a [*StatusError] for a STATUS other than OK, including EOF. For all other replies it
// returns nil.
func (p *Reply) Err() error {
	if p.Type != TypeStatus || p.Status == OK {
		return nil
	}
	return &StatusError{Status: p.Status, Message: string(p.Message)}
}

// An Entry is a name in a NAME reply.
type Entry struct {
	Name  []byte // in a reply to READDIR, the name without a directory; the peer may violate that
	Long  []byte // a line as in ls -l: see [AppendLongName]
	Attrs Attrs  // without Flags in replies to requests other than READDIR
}

// minEntry is the smallest size of an entry in bytes: two lengths and the flags.
const minEntry = 4 + 4 + 4

// Names holds the entries of a NAME reply as received. Their lengths have been checked.
type Names struct {
	count int
	b     []byte
}

// Len returns the number of entries.
func (n Names) Len() int { return n.count }

// All yields each entry in turn.
func (n Names) All() iter.Seq[Entry] {
	return func(yield func(e Entry) bool) {
		r := reader{b: n.b}
		for range n.count {
			if !yield(r.entry()) {
				return
			}
		}
	}
}

// One returns the only entry of a reply, such as the reply to REALPATH. It returns false if there
// is not exactly one entry.
func (n Names) One() (Entry, bool) {
	if n.count != 1 {
		return Entry{}, false
	}
	r := reader{b: n.b}
	return r.entry(), true
}

// names reads all entries, and checks that the packet contains as many as it announces.
func (r *reader) names() Names {
	n := Names{count: r.count("names", minEntry, MaxPacket/minEntry), b: r.b}
	for range n.count {
		r.entry()
		if r.failed() {
			return Names{}
		}
	}
	return n
}

func (r *reader) entry() Entry {
	return Entry{
		Name:  r.bytes("name", MaxPacket),
		Long:  r.bytes("long name", MaxPacket),
		Attrs: r.attrs(),
	}
}

// AppendHandle appends a HANDLE.
func AppendHandle(b []byte, id uint32, handle string) []byte {
	return appendOne(b, TypeHandle, id, handle)
}

// AppendData appends a DATA.
func AppendData(b []byte, id uint32, data []byte) []byte {
	return append(AppendDataHeader(b, id, len(data)), data...)
}

// AppendDataHeader appends a DATA without its n bytes of data, which must follow. To read a file
// straight into a packet, leave DataHeaderSize bytes free, read into the bytes after them, and then
// append the header in front:
//
//	at := len(b) + DataHeaderSize
//	n, err := file.ReadAt(b[at:at+length], offset)
//	b = AppendDataHeader(b, id, n)[:at+n]
func AppendDataHeader(b []byte, id uint32, n int) []byte {
	b, at := begin(b, TypeData, id)
	b = appendUint32(b, uint32(n))
	return announce(b, at, n)
}

// AppendName appends a NAME with one name, the answer to REALPATH, READLINK,
// expand-path@openssh.com and home-directory. Like OpenSSH's server, it repeats the name as the
// long name, and sends no attributes.
func AppendName(b []byte, id uint32, name string) []byte {
	at := len(b)
	b = AppendNames(b, id)
	b = appendString(appendString(b, name), name)
	return count(appendAttrs(b, Attrs{}), at)
}

// AppendNames appends a NAME without names, the beginning of an answer to READDIR. [AppendEntry]
// adds the names.
func AppendNames(b []byte, id uint32) []byte {
	b, at := begin(b, TypeName, id)
	return end(appendUint32(b, 0), at)
}

// AppendEntry adds a name to the NAME that extends from the index `at` to the end of b. It updates
// the length each time, so the packet is complete after each call. Stop well below SureData bytes:
// some clients accept no more.
func AppendEntry(b []byte, at int, name string, long []byte, a Attrs) []byte {
	b = appendString(appendString(b, name), long)
	return count(appendAttrs(b, a), at)
}

// count adds one to the number of names in the NAME that extends from the index `at` to the end of
// b.
func count(b []byte, at int) []byte {
	n := b[at+HeaderSize:]
	binary.BigEndian.PutUint32(n, binary.BigEndian.Uint32(n)+1)
	return end(b, at)
}

// AppendAttrs appends an ATTRS.
func AppendAttrs(b []byte, id uint32, a Attrs) []byte {
	b, at := begin(b, TypeAttrs, id)
	return end(appendAttrs(b, a), at)
}
