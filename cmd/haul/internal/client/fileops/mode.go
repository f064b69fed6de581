package fileops

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// These are bits of a Unix mode.
const (
	allBits   = 0o7777
	readAll   = 0o444
	writeAll  = 0o222
	executeIt = 0o111
	setIDs    = 0o6000
	sticky    = 0o1000
)

// A Mode is a change of permissions in the syntax of chmod(1): octal, or symbolic such as
// u+rw,go=rX.
type Mode struct {
	umask uint32
	steps []modeStep
}

// A modeStep is one part of a Mode, such as go=rX.
type modeStep struct {
	op byte // '+', '-' or '='
	// affected holds the bits selected by the letters u, g, o and a before the operator. If there are
	// no letters, it is 0, and the umask applies.
	affected  uint32
	value     uint32
	mentioned uint32 // bits that the text names; a directory keeps its other setuid and setgid bits
	copied    bool   // as in g=u: copy the permissions of the class that value selects
	ifAny     bool   // X: execute permission, for directories and for files that somebody may execute
}

// ParseMode parses a mode. The umask restricts symbolic modes that begin without u, g, o or a.
// Errors are usage errors.
func ParseMode(text string, umask fs.FileMode) (Mode, error) {
	m := Mode{umask: uint32(umask.Perm())}
	if text != "" && isOctal(text[0]) {
		bits, digits, rest := cutOctal(text)
		if rest != "" || bits > allBits {
			return Mode{}, badMode(text)
		}
		mentioned := uint32(allBits)
		if digits < 5 { // as in GNU chmod, 0755 keeps the setgid bit of a directory
			mentioned = bits&(setIDs|sticky) | 0o777
		}
		m.steps = []modeStep{{op: '=', affected: allBits, value: bits, mentioned: mentioned}}
		return m, nil
	}
	for clause := range strings.SplitSeq(text, ",") {
		steps, ok := parseClause(clause)
		if !ok {
			return Mode{}, badMode(text)
		}
		m.steps = append(m.steps, steps...)
	}
	return m, nil
}

func badMode(text string) error {
	return failure.Usage.Errorf("mode %q: it is octal, such as 640, or symbolic, such as u+x,g-w,a=rX", text)
}

func isOctal(c byte) bool { return '0' <= c && c <= '7' }

// cutOctal reads the octal number at the start of text. If the number is too large, bits is above
// allBits.
func cutOctal(text string) (bits uint32, digits int, rest string) {
	for digits < len(text) && isOctal(text[digits]) {
		digits++
	}
	n, err := strconv.ParseUint(text[:digits], 8, 32)
	if err != nil {
		n = allBits + 1
	}
	return uint32(n), digits, text[digits:]
}

// parseClause parses the part of a symbolic mode between two commas: the letters that say whose
// permissions change, and one or more changes.
func parseClause(s string) (steps []modeStep, ok bool) {
	var affected uint32
	for s != "" && strings.IndexByte("ugoa", s[0]) >= 0 {
		affected |= map[byte]uint32{'u': 0o4700, 'g': 0o2070, 'o': 0o1007, 'a': allBits}[s[0]]
		s = s[1:]
	}
	for s != "" {
		if strings.IndexByte("+-=", s[0]) < 0 {
			return nil, false
		}
		step := modeStep{op: s[0], affected: affected}
		s = s[1:]
		switch {
		case s != "" && isOctal(s[0]):
			bits, _, rest := cutOctal(s)
			if affected != 0 || rest != "" || bits > allBits {
				return nil, false
			}
			step.value, step.affected, step.mentioned, s = bits, allBits, allBits, ""
			return append(steps, step), true
		case s != "" && strings.IndexByte("ugo", s[0]) >= 0:
			step.value, step.copied = map[byte]uint32{'u': 0o700, 'g': 0o070, 'o': 0o007}[s[0]], true
			s = s[1:]
		default:
			for s != "" && strings.IndexByte("rwxXst", s[0]) >= 0 {
				step.value |= map[byte]uint32{'r': readAll, 'w': writeAll, 'x': executeIt, 's': setIDs, 't': sticky}[s[0]]
				step.ifAny = step.ifAny || s[0] == 'X'
				s = s[1:]
			}
		}
		if step.mentioned = step.value; affected != 0 {
			step.mentioned &= affected
		}
		steps = append(steps, step)
	}
	return steps, len(steps) > 0
}

// apply returns the permission bits of a file that has the bits `old`, after the change. dir says
// that the file is a directory.
func (m Mode) apply(old uint32, dir bool) uint32 {
	bits := old & allBits
	for _, s := range m.steps {
		var keep uint32 // setuid and setgid bits of a directory that the step must not change
		if dir {
			keep = setIDs &^ s.mentioned
		}
		value := s.value
		if s.copied {
			value &= bits
			for _, all := range [...]uint32{readAll, writeAll, executeIt} {
				if value&all != 0 {
					value |= all
				}
			}
		}
		if s.ifAny && (dir || bits&executeIt != 0) {
			value |= executeIt
		}
		if s.affected != 0 {
			value &= s.affected
		} else {
			value &^= m.umask
		}
		value &^= keep
		switch s.op {
		case '+':
			bits |= value
		case '-':
			bits &^= value
		case '=':
			kept := keep
			if s.affected != 0 {
				kept |= ^s.affected
			}
			bits = bits&kept | value
		}
	}
	return bits & allBits
}

// fileMode converts Unix bits to Go's file mode.
func fileMode(bits uint32) fs.FileMode {
	m := fs.FileMode(bits & 0o777)
	for _, special := range [...]fs.FileMode{fs.ModeSetuid, fs.ModeSetgid, fs.ModeSticky} {
		if console.UnixBits(special)&bits != 0 {
			m |= special
		}
	}
	return m
}
