package wire

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Status is the result of a request (draft, section 7).
type Status uint32

// The status codes of version 3. haul sends no others.
const (
	OK               Status = 0
	EOF              Status = 1 // no data at that offset, or no more names
	NoSuchFile       Status = 2
	PermissionDenied Status = 3
	Failure          Status = 4 // the message gives the reason, for example that a file exists
	BadMessage       Status = 5 // the request is invalid
	NoConnection     Status = 6 // used within clients, and never sent
	ConnectionLost   Status = 7 // used within clients, and never sent
	Unsupported      Status = 8 // the request is not supported
)

// Status codes of later versions (draft 13, section 9.1). Some servers send them even to clients of
// version 3.
const (
	InvalidHandle  Status = 9
	NoSuchPath     Status = 10
	FileExists     Status = 11
	WriteProtected Status = 12
	NoMedia        Status = 13
	NoSpace        Status = 14
	QuotaExceeded  Status = 15
	DirNotEmpty    Status = 18
	NotADirectory  Status = 19
	InvalidName    Status = 20
	LinkLoop       Status = 21
)

var statusTexts = [...]string{
	OK:               "success",
	EOF:              "end of file",
	NoSuchFile:       "no such file",
	PermissionDenied: "permission denied",
	Failure:          "failure",
	BadMessage:       "bad message",
	NoConnection:     "no connection",
	ConnectionLost:   "connection lost",
	Unsupported:      "operation unsupported",
	InvalidHandle:    "invalid handle",
	NoSuchPath:       "no such path",
	FileExists:       "file already exists",
	WriteProtected:   "write protected",
	NoMedia:          "no media",
	NoSpace:          "no space left",
	QuotaExceeded:    "quota exceeded",
	DirNotEmpty:      "directory not empty",
	NotADirectory:    "not a directory",
	InvalidName:      "invalid file name",
	LinkLoop:         "too many symbolic links",
}

// String returns a short description of the code.
func (s Status) String() string {
	if uint64(s) < uint64(len(statusTexts)) && statusTexts[s] != "" {
		return statusTexts[s]
	}
	return fmt.Sprintf("status %d", uint32(s))
}

// A StatusError is a STATUS with which a server refused a request. The driver, which knows the
// errors of files, defines which codes errors.Is recognizes.
type StatusError struct {
	Status  Status
	Message string // the server's text as received
}

// Error describes the refusal. It truncates the server's text, and replaces characters that could
// harm a terminal or a log.
func (e *StatusError) Error() string {
	s := "server says " + e.Status.String()
	if text := clean(e.Message); text != "" && !strings.EqualFold(text, e.Status.String()) {
		s += ": " + text
	}
	return fmt.Sprintf("%s (status %d)", s, uint32(e.Status))
}

// AppendStatus appends a STATUS. An empty message is replaced by the description of the code. A
// long message is truncated, and bytes that are not UTF-8 are replaced, because the draft requires
// UTF-8.
func AppendStatus(b []byte, id uint32, s Status, message string) []byte {
	if message == "" {
		message = s.String()
	}
	b, at := begin(b, TypeStatus, id)
	b = appendUint32(b, uint32(s))
	b = appendString(b, strings.ToValidUTF8(cut(message), "?"))
	b = appendString(b, "") // the language tag, which OpenSSH leaves empty too
	return end(b, at)
}

// cut truncates a message to maxMessage bytes, between two characters.
func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	n := maxMessage
	for n > maxMessage-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// clean truncates a peer's text, and replaces characters that should not be printed: control
// characters, and those that change the direction of the text.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, cut(s))
}
