package convert

import (
	"cmp"
	"net"
	"slices"
	"strings"

	"github.com/haul-project/haul/tftp/transfer"
)

// TFTPD converts text, the content of Debian's /etc/default/tftpd-hpa, to a configuration file of
// haul. The comments in the new file, and the errors, name the old file as `file`. The errors are
// usage errors: [failure.Usage].
func TFTPD(file, text string) (string, error) {
	t := tftpd{draft: draft{file: file}}
	found := t.readShell(text)
	for i, v := range found {
		if slices.ContainsFunc(found[i+1:], func(later variable) bool { return later.name == v.name }) {
			continue
		}
		if v.unknown {
			t.note(v.line, v.name, "haul runs no shell, and cannot know what $ and ` stand for")
			v.value = ""
		}
		switch v.name {
		case "TFTP_USERNAME":
			t.user = cmp.Or(t.user, &v)
		case "TFTP_ADDRESS":
			t.address = cmp.Or(t.address, &v)
		case "TFTP_OPTIONS":
			t.options(v)
		case "TFTP_DIRECTORY":
			t.directory = v
		default:
			t.note(v.line, v.name, "haul does not know this variable")
		}
	}
	t.settings()
	return t.finish()
}

// A tftpd is the state of a conversion: the values on the command line of in.tftpd.
type tftpd struct {
	draft
	user, address *variable  // from an option or, without that option, from a variable of the file
	dirs          []variable // the directories among the options; those in the variable directory follow them
	directory     variable
	family        byte // '4' or '6' for the option -4 or -6; 0 without these options

	create, secure, permissive bool
	refused                    []option // the -r options, which name TFTP options to refuse
}

// An option is an option of in.tftpd on its command line.
type option struct {
	letter byte
	value  string
	words  string
	line   int
}

// optionNames maps the long names of options to their letters.
var optionNames = map[string]byte{
	"ipv4": '4', "ipv6": '6', "listen": 'l', "foreground": 'L', "address": 'a', "create": 'c', "secure": 's', "user": 'u',
	"umask": 'U', "permissive": 'p', "pidfile": 'P', "timeout": 't', "retransmit": 'T', "map-file": 'm', "verbose": 'v',
	"verbosity": verbosity, "refuse": 'r', "blocksize": 'B', "port-range": 'R', "version": 'V', "map-steps": mapSteps,
}

// These long options have no letter.
const (
	verbosity = 1 + iota
	mapSteps
)

// takeValues are the letters of options that take a value.
const takeValues = "auUPtTmrBR"

func takesValue(letter byte) bool {
	return letter == verbosity || letter == mapSteps || strings.IndexByte(takeValues, letter) >= 0
}

// options reads TFTP_OPTIONS as getopt_long does.
func (t *tftpd) options(v variable) {
	// Fields is enough: the shell does not interpret quotes in the value of a variable.
	words := strings.Fields(v.value)
	for i := 0; i < len(words); i++ {
		word := words[i]
		o := option{words: word, line: v.line}
		next := func() (string, bool) {
			if i++; i >= len(words) {
				t.note(v.line, word, "the value of this option is missing")
				return "", false
			}
			return words[i], true
		}
		switch {
		case word == "--":
			t.addDirs(v, words[i+1:])
			return
		case strings.HasPrefix(word, "--"):
			name, value, joined := strings.Cut(word[2:], "=")
			if o.letter = longOption(name); o.letter == 0 {
				t.note(v.line, word, "haul does not know --"+brief(name))
				continue
			}
			o.value = value
			if !joined && takesValue(o.letter) {
				var ok bool
				if o.value, ok = next(); !ok {
					return
				}
				o.words += " " + o.value
			}
			t.apply(o)
		case len(word) > 1 && word[0] == '-':
			t.letters(word, o, next)
		default:
			t.addDirs(v, words[i:i+1])
		}
	}
}

func (t *tftpd) addDirs(v variable, dirs []string) {
	for _, dir := range dirs {
		t.dirs = append(t.dirs, variable{name: v.name, value: dir, line: v.line})
	}
}

// letters applies the options of a word that joins several letters, such as -svB1468.
func (t *tftpd) letters(word string, o option, next func() (string, bool)) {
	for j := 1; j < len(word); j++ {
		o.letter, o.words = word[j], "-"+word[j:j+1]
		if !takesValue(o.letter) {
			t.apply(o)
			continue
		}
		ok := true
		if o.value = word[j+1:]; o.value == "" {
			o.value, ok = next()
		}
		if o.words += " " + o.value; ok {
			t.apply(o)
		}
		return
	}
}

// longOption returns the letter of an option by its long name, which may be abbreviated. It returns
// 0 if no long name begins with the given name, or if several do and none is equal to it.
func longOption(name string) (letter byte) {
	if letter, ok := optionNames[name]; ok {
		return letter
	}
	for full, l := range optionNames {
		switch {
		case !strings.HasPrefix(full, name):
		case letter != 0:
			return 0
		default:
			letter = l
		}
	}
	return letter
}

// cannot maps letters of options to the reason why these options cannot be converted.
var cannot = map[byte]string{
	't':      "haul ends when a signal asks for it, it has no idle timeout",
	'T':      "haul measures the round trip, and derives its timeouts from it",
	'U':      "haul has no setting for the permissions of uploads",
	'P':      "haul writes no PID file; systemd knows the process of a service",
	'V':      "in.tftpd would print its version and end",
	mapSteps: "haul has a limit of its own, which no setting changes",
}

// apply converts one option.
func (t *tftpd) apply(o option) {
	v := &variable{name: o.words, value: o.value, line: o.line}
	switch o.letter {
	case 'l', 'L', 'v', verbosity: // needs no setting: haul always does this
	case '4', '6':
		t.family = o.letter
	case 'a':
		t.address = v
	case 'u':
		t.user = v
	case 'c':
		t.create = true
	case 's':
		t.secure = true
	case 'p':
		t.permissive = true
	case 'm':
		t.set("files.map", o.line, o.words, o.value)
	case 'B':
		t.set("tftp.blksize", o.line, o.words, o.value)
	case 'R':
		t.set(ports, o.line, o.words, strings.Replace(o.value, ":", "-", 1))
	case 'r':
		t.refused = append(t.refused, o)
	default:
		reason, known := cannot[o.letter]
		if !known {
			reason = "haul does not know this option"
		}
		t.note(o.line, o.words, reason)
	}
}

// settings sets the settings that depend on several options.
func (t *tftpd) settings() {
	account := cmp.Or(t.user, &variable{name: "no TFTP_USERNAME", value: "nobody"}) // in.tftpd's default
	t.set(user, account.line, account.name, cmp.Or(account.value, "nobody"))
	address := cmp.Or(t.address, &variable{name: "no TFTP_ADDRESS"})
	if address.unknown {
		t.hide(address.line, address.name)
	} else {
		t.set(listen, address.line, address.name+" "+address.value, t.listenOn(address.value))
	}
	if t.addDirs(t.directory, strings.Fields(t.directory.value)); len(t.dirs) > 0 {
		var names []string
		for _, dir := range t.dirs {
			names = append(names, dir.value)
		}
		t.set(dirs, t.dirs[0].line, t.dirs[0].name, names...)
	}
	t.refusals()
	t.rights()
}

// refusals sets the TFTP options that the server refuses. in.tftpd does not start if its command
// line refuses an option that it does not know.
func (t *tftpd) refusals() {
	var names []string
	for _, o := range t.refused {
		if _, err := transfer.ParseOptionSet(o.value); err != nil {
			t.note(o.line, o.words, err.Error())
			continue
		}
		names = append(names, o.value)
		t.set(refuse, o.line, o.words, names...)
	}
}

// rights sets which files clients may read and write, and adds notes about the differences between
// in.tftpd and haul.
func (t *tftpd) rights() {
	switch {
	case t.create && t.permissive:
		t.set("files.upload", 0, "--create --permissive", "overwrite")
	case t.create:
		t.set("files.upload", 0, "--create", "create")
		t.note(0, "", `with --create, tftpd-hpa also lets clients replace files that everybody may write. haul decides for all files: upload = "create" lets them replace none, and "overwrite" all`)
	default:
		t.note(0, "", `without --create, tftpd-hpa lets clients replace files that everybody may write. haul lets them write nothing, unless [files] has upload = "create" or "overwrite"`)
	}
	if !t.permissive {
		t.note(0, "", "without --permissive, tftpd-hpa serves only files that everybody may read. haul serves all that its user may read")
	}
	if !t.secure {
		t.note(0, "", "without --secure, clients ask tftpd-hpa for full paths. haul serves paths below dirs; rules in the file of [files] map can take the directory off their beginning")
	}
}

// listenOn returns an address in haul's form. in.tftpd accepts an address without a host or a port.
func (t *tftpd) listenOn(address string) string {
	host, port := address, ""
	if i := strings.LastIndexByte(address, ':'); i >= 0 && !strings.HasSuffix(address, "]") {
		host, port = address[:i], address[i+1:]
	}
	if strings.Contains(host, ":") && host[0] != '[' {
		return address // haul refuses such an address too, so leave it as it is
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" {
		host = map[byte]string{'4': "0.0.0.0", '6': "::"}[t.family]
	}
	return net.JoinHostPort(host, cmp.Or(port, "69"))
}
