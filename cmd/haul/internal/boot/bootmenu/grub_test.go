package bootmenu

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/golden"
	"github.com/haul-project/haul/internal/urlpath"
)

// The script for GRUB has the entries and the default of the menu.
func TestGRUB(t *testing.T) {
	m := Read(treeOf(map[string]string{
		"loader/entries/b-debian.conf": "title Debian GNU/Linux 13 (trixie)\narchitecture x64\nlinux /debian/vmlinuz\n" +
			"initrd /microcode.img\ninitrd /debian/initrd.img\noptions root=/dev/sda1 dyndbg=\"file a.c +p\"\n",
		"loader/entries/a-fedora.conf": "title It's Fedora'; reboot; '\nlinux /fedora/vm linu'z\noptions $tuned_params ; reboot\n",
		"loader/entries/c-odd.conf":    "title GRUB would change this\nlinux /l\noptions a\\b\n",
		"loader/entries/d-dash.conf":   "title --unrestricted\nlinux /l\n",
	}))
	m.Default, m.Timeout = "b-debian", 10*time.Second
	golden.Compare(t, "grub-entries.txt", string(m.AppendGRUB(nil)))
	m.Default, m.Timeout = "c-odd", 0
	if s := string(m.AppendGRUB(nil)); !strings.Contains(s, "set default=local\nmenuentry") || strings.Contains(s, "entry2") {
		t.Errorf("an entry that GRUB cannot boot is there, or a time:\n%s", s)
	}
}

// grubWords splits a GRUB command into words, as far as the generated script needs it. ok is false
// if the line has a variable or a second command.
func grubWords(line string) (words []string, ok bool) {
	for line = strings.TrimLeft(line, "\t "); line != ""; line = strings.TrimLeft(line, " ") {
		word := ""
		for line != "" && line[0] != ' ' {
			switch line[0] {
			case '\'':
				text, rest, closed := strings.Cut(line[1:], "'")
				if !closed {
					return nil, false
				}
				word, line = word+text, rest
			case '\\':
				if line = line[1:]; line == "" {
					return nil, false
				}
				word, line = word+line[:1], line[1:]
			case '$', '"', ';', '&', '|', '#', '<', '>', '*':
				return nil, false
			default:
				word, line = word+line[:1], line[1:]
			}
		}
		words = append(words, word)
	}
	return words, true
}

// Whatever an entry contains, GRUB sees one title, one kernel with its options, and its initrds. By
// HTTP their names are parts of URLs.
func FuzzGRUB(f *testing.F) {
	f.Add("Debian", "vmlinuz", `root=/dev/sda1 a="b c"`)
	f.Add("'; reboot; '", "a'b", "$root ${root} ; reboot # x")
	f.Add("a\nreboot", "\n", "a\"b c")
	f.Add("--id=local", "-", "--help")
	f.Add("a", "50%25 off?/#1/ü", "")
	f.Fuzz(func(t *testing.T, title, kernel, options string) {
		e := Entry{Name: "x", Title: title, Linux: kernel, Initrds: []string{kernel, "b"}, Options: options}
		m := Menu{Entries: []Entry{e}}
		_, script, there := strings.Cut(string(m.AppendGRUB(nil)), "exit 1\n}\n")
		if !there {
			t.Fatal("there is no entry for the disk")
		}
		if e.check() != nil || e.checkGRUB() != nil {
			if script != "" {
				t.Fatalf("the entry is there: %q", script)
			}
			return
		}
		lines := strings.Split(script, "\n")
		words := [][]string{{"linux", "/" + kernel}, {"initrd", "/" + kernel, "/b"}}
		words[0] = append(words[0], kernelWords(options)...)
		if encoded := string(urlpath.Append(nil, kernel)); encoded != kernel { // the script distinguishes TFTP
			if lines[1] != "\tif [ \"$root\" = \"tftp,$net_default_server\" ]; then" || lines[4] != "\telse" || lines[7] != "\tfi" {
				t.Fatalf("it does not depend on the protocol: %q", script)
			}
			lines = slices.Concat(lines[:1], lines[2:4], lines[5:7], lines[8:])
			words = append(words, slices.Concat([]string{"linux", "/" + encoded}, words[0][2:]), []string{"initrd", "/" + encoded, "/b"})
		}
		if len(lines) != 3+len(words) {
			t.Fatalf("%d lines: %q", len(lines), script)
		}
		want := printable(title)
		if strings.HasPrefix(want, "-") { // GRUB takes a word with a leading dash for an option
			want = " " + want
		}
		for i, want := range slices.Insert(words, 0, []string{"menuentry", want, "--id", "entry0", "{"}) {
			if got, ok := grubWords(lines[i]); !ok || !slices.Equal(got, want) {
				t.Fatalf("the words are %q, want %q", got, want)
			}
		}
	})
}

// For a kernel, white space between quotes is part of a word.
func TestKernelWords(t *testing.T) {
	for options, want := range map[string][]string{
		"":                       nil,
		" a  b\tc ":              {"a", "b", "c"},
		`a="b c" d`:              {"a=b c", "d"},
		`"a b"=c "d`:             {"a b=c", "d"},
		`dyndbg="file a.c +p" q`: {"dyndbg=file a.c +p", "q"},
	} {
		if got := kernelWords(options); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}
