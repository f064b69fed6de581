// Package pipeline decides which byte range of a file to request next, and how many bytes may be
// outstanding, over one or more sessions to a server.
//
// A [Link] represents the path to a server: its sessions (SSH channels or HTTP connections), its
// rate, its round trip, and the outstanding requests. A [Plan] moves one file over a link, in either
// direction. Any number of plans can share a link. An [Ops] bounds the number of requests that carry
// no data: stat, open, close, readdir.
//
// The package opens no socket, reads no clock, touches no file and starts no goroutine. A Link and
// its plans must not be used by several goroutines at the same time. A driver that reads a file
// works in these steps:
//
//  1. For each open session, call [Plan.Next] until it returns false, and send the requests that it
//     returns. To spread the load, begin with the session that has the fewest bytes outstanding.
//  2. For each answer with data, call [Link.Find] to learn which bytes are still missing, store these,
//     and call [Plan.Reply]. For other answers, call [Plan.EOF] or [Plan.Failed]. If the bytes cannot
//     be stored, call [Plan.LocalFailed].
//  3. After each of these calls, repeat step 1 for all sessions, because an answer on one session may
//     make room on another. At [Plan.Deadline], do so even if nothing has arrived.
//  4. Open a session when [Plan.Sessions] exceeds the number of open sessions. Call
//     [Link.LimitSessions] if the server refuses, and [Link.SessionLost] when a session ends.
//  5. After [Plan.Done], keep the file up to [Plan.End]. If [Plan.Err] returns an error, truncate
//     it to [Plan.Contiguous].
//  6. Forget the plan when [Plan.Outstanding] is zero too: a range may have been requested twice,
//     and its second answer may still arrive.
//
// A driver that writes a file works in the same way: Next returns the range to send, and Reply
// reports that the server has stored it. If the program itself sets the pace, because it calls a
// reader or a writer, the driver moves [Plan.Limit].
package pipeline

import "errors"

// Bounds of all tables and lists in this package.
const (
	// MaxSessions is the largest number of sessions of one link. Sessions are numbered from 0.
	MaxSessions = 64

	// MaxOutstanding is the largest number of requests outstanding on one link, and on one Ops.
	// With requests of 16 KiB, that is 64 MiB.
	MaxOutstanding = 1 << outstandingBits

	outstandingBits = 12
	generationBits  = 31 - outstandingBits // the top bit of an id is for the driver

	// maxPieces bounds the number of pieces into which a plan divides its file. Even with a short
	// answer to each of MaxOutstanding requests, there are at most half as many pieces. There are
	// more only if the server answers each request with less data than the one before.
	maxPieces = 8 * MaxOutstanding

	// maxEmpty is the number of answers without data, for one range, that make the plan fail.
	maxEmpty = 3

	// minChunk is the smallest size, in bytes, to which short answers can reduce requests. It is
	// OpenSSH's MIN_READ_SIZE.
	minChunk = 512

	// shortsInRow is how many short answers in a row make further requests smaller. OpenSSH's client
	// makes them smaller after one. But a single short answer also occurs at the end of a file that
	// grows.
	shortsInRow = 4
)

// none stands for "no element" wherever an index is expected.
const none = -1

// The defaults for fields of [Limits] and [Config] that are zero.
const (
	// DefaultSessionBytes is the window of an SSH channel, a constant both in OpenSSH
	// (CHAN_SES_WINDOW_DEFAULT) and in x/crypto/ssh.
	DefaultSessionBytes = 2 << 20

	// DefaultMinBytes is the window of one session. It also covers a delay that the shortest round
	// trip does not show: a server may be busy for longer than a round trip.
	DefaultMinBytes = 2 << 20

	DefaultMaxBytes = 64 << 20
	DefaultSessions = 8        // OpenSSH's default of MaxSessions is 10
	DefaultChunk    = 32 << 10 // the size that every SFTP server must support (draft-ietf-secsh-filexfer-02 §3)
)

// ErrNoProgress is the error of a plan whose server keeps answering the same range with no data and
// no end of file.
var ErrNoProgress = errors.New("server answers with no data and no end of file")

// ErrFragments is the error of a plan whose file is divided into too many pieces, because of the
// length and the order of the server's short answers.
var ErrFragments = errors.New("server's short answers leave the file in too many pieces")

// A Request is a request to move one range. ID identifies it on the wire: no other request
// outstanding on the link has the same ID. The top bit of ID is clear, so a driver can use the
// numbers with that bit set for its own requests.
type Request struct {
	ID     uint32
	Offset int64
	Len    int
}

// Stats holds the counters of one plan. They never decrease.
type Stats struct {
	Requests  int64 // requests returned by Next
	Moved     int64 // bytes moved, each counted once
	Duplicate int64 // bytes that moved again, or that lie after the end of the file
	Short     int64 // answers with fewer bytes than requested, but at least one
	Empty     int64 // answers without bytes
	Repeats   int64 // requests that repeat a late request of another session
	Lost      int64 // requests whose session was lost
}
