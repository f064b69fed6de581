package transfer

import (
	"errors"
	"fmt"
	"strings"
)

// ErrSilent is the error of a transfer whose peer no longer answers, or never did.
var ErrSilent = errors.New("peer does not answer")

// ErrStalled is the error of a transfer whose peer keeps sending packets, but makes little or no
// progress. See section 5 of https://github.com/haul-project/haul/blob/main/docs/tftp.md.
var ErrStalled = errors.New("peer makes no progress")

// An ErrorCode is the number in an ERROR packet (RFC 1350 appendix, RFC 2347).
type ErrorCode uint16

// The error codes.
const (
	NotDefined       ErrorCode = 0 // the message says what happened
	FileNotFound     ErrorCode = 1
	AccessViolation  ErrorCode = 2
	DiskFull         ErrorCode = 3 // disk full, or allocation exceeded
	IllegalOperation ErrorCode = 4
	UnknownID        ErrorCode = 5 // unknown transfer ID
	FileExists       ErrorCode = 6
	NoSuchUser       ErrorCode = 7
	OptionsRefused   ErrorCode = 8 // RFC 2347: the options cannot be agreed on
)

var errorTexts = [...]string{
	NotDefined:       "error",
	FileNotFound:     "file not found",
	AccessViolation:  "access violation",
	DiskFull:         "disk full or allocation exceeded",
	IllegalOperation: "illegal TFTP operation",
	UnknownID:        "unknown transfer ID",
	FileExists:       "file already exists",
	NoSuchUser:       "no such user",
	OptionsRefused:   "options refused",
}

// String returns the code's meaning in the RFC's words.
func (c ErrorCode) String() string {
	if int(c) < len(errorTexts) {
		return errorTexts[c]
	}
	return fmt.Sprintf("error %d", uint16(c))
}

// An Error is the content of an ERROR packet.
type Error struct {
	Code    ErrorCode
	Message string
	Remote  bool // the peer sent the packet; if false, this side did
}

// Error returns the code's meaning and the message, and says whether the peer sent the error.
func (e *Error) Error() string {
	s := e.Code.String()
	if e.Message != "" && !strings.EqualFold(e.Message, s) {
		s += ": " + e.Message
	}
	if e.Remote {
		return fmt.Sprintf("peer says %s (ERROR %d)", s, uint16(e.Code))
	}
	return s
}
