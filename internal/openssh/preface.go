package openssh

import (
	"bytes"
	"strings"
)

// maxPreface is how many bytes are kept of what a server says before its version.
const maxPreface = 1 << 10

// A preface is what a server says before the line with its version (RFC 4253,
// section 4.2). Some say nothing else, but why they will not serve. x/crypto
// passes over it.
type preface struct {
	text []byte
	over bool // the version has come, or too much
}

// take takes more of what comes. Only the goroutine that waits for the version
// calls it, until it has come.
func (p *preface) take(b []byte) {
	if p.over {
		return
	}
	p.text = append(p.text, b[:min(len(b), maxPreface-len(p.text))]...)
	if bytes.HasPrefix(p.text, []byte("SSH-")) || bytes.Contains(p.text, []byte("\nSSH-")) || len(p.text) == maxPreface {
		p.over = true
	}
}

// refuses reports whether those are the words of an SSH server. Other protocols
// answer our version by an error of theirs: HTTP, or one of three digits.
func refuses(words string) bool {
	code := len(words) > 3 && strings.Trim(words[:3], "0123456789") == "" && strings.ContainsAny(words[3:4], " -")
	return !code && !strings.HasPrefix(words, "HTTP/")
}

// words returns what was said, in one line, if that is all that came.
func (p *preface) words() string {
	if p.over {
		return ""
	}
	return printable(strings.Join(strings.Fields(string(p.text)), " "))
}
