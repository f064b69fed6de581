// Package wire is SFTP without a network: the requests and replies of version 3
// of the protocol (draft-ietf-secsh-filexfer-02), with the extensions of OpenSSH
// (its PROTOCOL file, section 4) and check-file, as bytes and back.
//
// Nothing here opens a channel, reads a clock, touches a file or remembers one
// packet when the next comes. A driver owns those. To send, it calls the Append
// functions: each appends one packet, with its length filled in, so that one
// buffer may take many and go out in one write. They never fail, and leave it to
// the driver that nothing is longer than the peer takes. To receive, a server
//
//  1. gathers bytes until [PacketLength] finds a whole packet at their front;
//  2. hands that to [ParseRequest], whose error is an [*Error] that says what to
//     answer;
//  3. answers each request once, INIT with [AppendVersion];
//  4. answers READ with [AppendDataHeader], so that the file is read right
//     behind the place of the header, and never copied.
//
// A client numbers its requests, takes replies in any order, and
//
//  1. reads [HeaderSize] bytes and hands them to [ParseHeader];
//  2. if that is a DATA, reads on to [DataHeaderSize] bytes, hands them to
//     [ParseDataHeader], and then reads the data to where it belongs;
//  3. else reads the rest of the packet, and hands all of it to [ParseReply].
//
// Parsed values are views of the packet, and valid until its bytes change.
// Nothing is copied or allocated, and no length or count is believed before as
// many bytes are found to be there. Paths and names are handed over as they
// came: the driver checks what may be done with them.
package wire

import (
	"math"
	"strconv"
)

// ProtocolVersion is the version of SFTP that is spoken here. A server answers
// INIT with it, whatever the client offers, as OpenSSH's does.
const ProtocolVersion = 3

// Bounds on what comes from the peer. More is an error.
const (
	// MaxPacket is the longest packet, in bytes, with its length field. OpenSSH
	// takes 256 KiB; there is some room more, so that 256 KiB of data fit.
	MaxPacket = 256<<10 + 1<<10

	// MaxFile is the size that no file has, in bytes. It leaves room for offsets of requests
	// behind it.
	MaxFile = math.MaxInt64 - math.MaxUint32

	MaxHandle = 256  // bytes a handle (draft, section 7)
	MaxPath   = 4096 // bytes a path of a request; OpenSSH answers BadMessage as well
	MaxPairs  = 256  // extension pairs in a packet, or in one file's attributes

	maxAlgorithms = 1024 // bytes a list of hash algorithms
	maxMessage    = 256  // bytes of a status message, sent or shown
)

// Bytes of data that a peer can take in one WRITE, or give for one READ.
const (
	SureData   = 32 << 10  // always: section 3 of the draft wants packets of 34000 bytes
	CommonData = 255 << 10 // what OpenSSH offers by limits@openssh.com; ask for no more
)

// A Type says what a packet is (draft, section 3).
type Type uint8

// The packet types.
const (
	TypeInit     Type = 1
	TypeVersion  Type = 2
	TypeOpen     Type = 3
	TypeClose    Type = 4
	TypeRead     Type = 5
	TypeWrite    Type = 6
	TypeLstat    Type = 7
	TypeFstat    Type = 8
	TypeSetstat  Type = 9
	TypeFsetstat Type = 10
	TypeOpendir  Type = 11
	TypeReaddir  Type = 12
	TypeRemove   Type = 13
	TypeMkdir    Type = 14
	TypeRmdir    Type = 15
	TypeRealpath Type = 16
	TypeStat     Type = 17
	TypeRename   Type = 18
	TypeReadlink Type = 19
	TypeSymlink  Type = 20

	TypeStatus Type = 101
	TypeHandle Type = 102
	TypeData   Type = 103
	TypeName   Type = 104
	TypeAttrs  Type = 105

	TypeExtended      Type = 200
	TypeExtendedReply Type = 201
)

var typeNames = [...]string{
	TypeInit:     "INIT",
	TypeVersion:  "VERSION",
	TypeOpen:     "OPEN",
	TypeClose:    "CLOSE",
	TypeRead:     "READ",
	TypeWrite:    "WRITE",
	TypeLstat:    "LSTAT",
	TypeFstat:    "FSTAT",
	TypeSetstat:  "SETSTAT",
	TypeFsetstat: "FSETSTAT",
	TypeOpendir:  "OPENDIR",
	TypeReaddir:  "READDIR",
	TypeRemove:   "REMOVE",
	TypeMkdir:    "MKDIR",
	TypeRmdir:    "RMDIR",
	TypeRealpath: "REALPATH",
	TypeStat:     "STAT",
	TypeRename:   "RENAME",
	TypeReadlink: "READLINK",
	TypeSymlink:  "SYMLINK",

	TypeStatus: "STATUS",
	TypeHandle: "HANDLE",
	TypeData:   "DATA",
	TypeName:   "NAME",
	TypeAttrs:  "ATTRS",

	TypeExtended:      "EXTENDED",
	TypeExtendedReply: "EXTENDED_REPLY",
}

// String returns the type's name in the draft, without SSH_FXP_.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return "type " + strconv.Itoa(int(t))
}
