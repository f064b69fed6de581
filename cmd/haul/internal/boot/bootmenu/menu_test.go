package bootmenu

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/internal/golden"
)

// tree is a Files in memory.
type tree fstest.MapFS

func (tr tree) Names(dir string) (names []string, err error) {
	entries, err := fstest.MapFS(tr).ReadDir(dir)
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	return names, err
}

func (tr tree) Read(name string, max int) ([]byte, error) {
	b, err := fstest.MapFS(tr).ReadFile(name)
	if len(b) > max {
		return nil, errors.New("too long")
	}
	return b, err
}

func treeOf(files map[string]string) tree {
	tr := tree{}
	for name, text := range files {
		tr[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tr
}

// This test covers the scripts of a tree with entries, of one with directories, and of an empty
// one.
func TestScripts(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"entries": {
			"loader/entries/b-debian.conf": "# Debian's\ntitle      Debian GNU/Linux 13 (trixie)\nversion 6.12.1\n" +
				"machine-id 0123456789abcdef0123456789abcdef\narchitecture x64\nlinux  /debian/vmlinuz-6.12.1\n" +
				"initrd /microcode.img\ninitrd\t/debian/initrd.img-6.12.1\noptions root=/dev/sda1 ro\noptions quiet\n",
			"loader/entries/a-fedora.conf":  "linux /fedora/vm linuz\ninitrd /fedora/initramfs.img $tuned_initrd\noptions root=/dev/vda2 $tuned_params\narchitecture AA64\n",
			"loader/entries/readme.txt":     "no entry",
			"loader/entries/c-windows.conf": "title Windows\nefi /EFI/Microsoft/Boot/bootmgfw.efi\n",
			"loader/entries/d-rhel.conf":    "title RHEL 8\nlinux /vmlinuz\noptions $kernelopts\n",
			"live/vmlinuz":                  "", "live/initrd.img": "",
		},
		"directories": {
			"debian-installer/amd64/linux": "", "debian-installer/amd64/initrd.gz": "",
			"fedora/vmlinuz": "", "fedora/vmlinuz.sha256": "", "fedora/initrd.img": "",
			"two/vmlinuz-1": "", "two/vmlinuz-2": "", "two/initrd.img": "",
			"none/vmlinuz": "", ".hidden/vmlinuz": "", ".hidden/initrd": "",
			"a/b/c/d/e/f/vmlinuz": "", "a/b/c/d/e/f/initrd": "",
			"a/b/c/d/e/f/g/vmlinuz": "", "a/b/c/d/e/f/g/initrd": "",
			"bzImage": "", "initrd.cpio": "", "ipxe.efi": "",
		},
		"empty": {},
	} {
		t.Run(name, func(t *testing.T) {
			m := Read(treeOf(files))
			script := string(m.AppendScript(nil))
			for _, problem := range m.Problems {
				script += fmt.Sprintf("\n(left out: %v)", problem)
			}
			golden.Compare(t, "menu-"+name+".txt", script+"\n")
		})
	}
	golden.Compare(t, "autoexec.txt", string(AppendAutoexec(nil)))
}

// A menu can boot an entry by default, or wait forever.
func TestMenuDefault(t *testing.T) {
	m := Read(treeOf(map[string]string{"a/linux": "", "a/initrd": "", "b/linux": "", "b/initrd": ""}))
	m.Default, m.Timeout = "b", 0
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	if s := string(m.AppendScript(nil)); !strings.Contains(s, "\nchoose --default entry1 chosen ||") {
		t.Errorf("got %s", s)
	}
	m.Default = "c"
	if err := m.Check(); err == nil || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("got %v", err)
	}
}

// Entries that cannot be booted are left out, with a reason.
func TestParseEntryRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "no line linux",
		"linux":                     "not the name of a file",
		"linux /":                   "not the name of a file",
		"linux /a/../../etc/shadow": "not the name of a file",
		"linux " + strings.Repeat("x", maxPath+1):               "not the name of a file",
		"linux l\ninitrd /a /..":                                "not the name of a file",
		"linux l\ninitrd" + strings.Repeat(" i", maxInitrds+1):  "9 initrds",
		"linux l\noptions " + strings.Repeat("x", maxOptions+1): "2049 bytes",
		"linux l\noptions a\x01b":                               "control character",
		"linux l\noptions $kernelopts":                          "variable",
		"linux l\noptions root=${net0/mac}":                     "variable",
		"linux l\narchitecture vax":                             "unknown architecture",
	} {
		if e, err := parseEntry("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %+v, %v", text, e, err)
		}
	}
}

// A tree that exceeds the bounds gives a menu within them, and a problem.
func TestMenuIsBounded(t *testing.T) {
	files, dirs := map[string]string{}, map[string]string{}
	for i := range MaxEntries + 1 {
		files[fmt.Sprintf("loader/entries/%d.conf", i)] = "linux l"
		dirs[fmt.Sprintf("%d/linux", i)], dirs[fmt.Sprintf("%d/initrd", i)] = "", ""
	}
	many := map[string]string{"zzz/linux": "", "zzz/initrd": ""}
	for i := range maxSearched {
		many[fmt.Sprintf("%04d/x", i)] = ""
	}
	broken := map[string]string{"loader/entries/0.conf": "linux l", "loader/entries/1.conf": strings.Repeat("#", maxEntryFile+1)}
	for i := range 2 * maxProblems {
		broken[fmt.Sprintf("loader/entries/x%d.conf", i)] = "title x"
	}
	for _, test := range []struct {
		name              string
		files             map[string]string
		entries, problems int
	}{{"files", files, MaxEntries, 1}, {"directories", dirs, MaxEntries, 1}, {"too many directories", many, 0, 1}, {"broken", broken, 1, maxProblems}} {
		m := Read(treeOf(test.files))
		if len(m.Entries) != test.entries || len(m.Problems) != test.problems {
			t.Errorf("%s: %d entries, %v", test.name, len(m.Entries), m.Problems)
		}
	}
	var odd Menu
	for i := range 2 * maxProblems {
		odd.Entries = append(odd.Entries, Entry{Name: fmt.Sprint(i), Linux: "\u00fc\n"})
	}
	if g, i := len(odd.GRUBProblems()), len(odd.IPXEProblems()); g != maxProblems || i != maxProblems {
		t.Errorf("%d problems of GRUB's menu and %d of iPXE's, want %d of each", g, i, maxProblems)
	}
}

// commands splits a script as iPXE does (its core/exec.c, core/settings.c, image/script.c): lines
// are joined at backslashes and split into words at white space, then into commands, and settings
// are expanded last. The value of each setting is its name, except that "nothing" is empty.
func commands(script string) (all [][]string) {
	script = strings.ReplaceAll(strings.ReplaceAll(script, "\r\n", "\n"), "\\\n", "")
	for line := range strings.Lines(script) {
		line = strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t\v\f\r")
		if strings.HasPrefix(line, ":") {
			label, rest, _ := strings.Cut(line, " ")
			all, line = append(all, []string{label}), rest
		}
		var argv []string
		end := func() {
			if argv != nil {
				all = append(all, argv)
			}
			argv = nil
		}
		for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }) {
			if word[0] == '#' {
				break
			}
			if word == "||" || word == "&&" || word == ";" {
				end()
				continue
			}
			argv = append(argv, expand(word))
		}
		end()
	}
	return all
}

func expand(word string) string {
	for {
		end := strings.Index(word, "}")
		for end >= 0 && strings.LastIndex(word[:end], "${") < 0 {
			next := strings.Index(word[end+1:], "}")
			if next < 0 {
				return word
			}
			end += 1 + next
		}
		if end < 0 {
			return word
		}
		begin := strings.LastIndex(word[:end], "${")
		value := word[begin+2 : end]
		if value == "nothing" {
			value = ""
		}
		word = word[:begin] + value + word[end+1:]
	}
}

// Whatever an entry contains, iPXE sees only the commands of the menu, with the words of the title
// and the options unchanged.
func FuzzMenu(f *testing.F) {
	f.Add("Debian", "vmlinuz", "root=/dev/sda1 quiet", "dir")
	f.Add("a || shell", "a && shell", "x ; shell", "${buildarch}")
	f.Add("# a", "#a", "a #b # c && d", "a\\")
	f.Add("a\\", "a\nshell", "a\\ b\\", "$ {x} ${nothing}")
	f.Add("${net0/mac} $${x}{y}", "%20", "}{$ a$\\ {b}", "--gap")
	f.Add("\x00\r\n\v\xff\u00a0é", "\x00\xff", "a\tb\u00a0c\xff", "x\ny")
	f.Fuzz(func(t *testing.T, title, kernel, options, dir string) {
		e, err := parseEntry("x", []byte("linux "+kernel+"\ninitrd "+kernel+"\ntitle "+title+"\noptions "+options))
		if err != nil {
			// Another program may have created the entry.
			e = Entry{Name: dir, Title: title, Linux: kernel, Initrds: []string{kernel, dir}, Options: options}
			if bad := e.check(); bad != nil {
				good := Entry{Name: "good", Linux: "l"}
				with, without := Menu{Entries: []Entry{good, e}, Default: dir}, Menu{Entries: []Entry{good}}
				if got := string(with.AppendScript(nil)); dir != "good" && got != string(without.AppendScript(nil)) {
					t.Fatalf("%v, and the entry is there: %q", bad, got)
				}
				return
			}
		}
		m := Menu{Entries: []Entry{e, {Name: dir, Title: dir, Linux: dir + "/l", Initrds: []string{dir + "/i"}, Arch: pxe.X64}}}
		got := commands(string(m.AppendScript(nil)))
		want := commands(string((&Menu{Entries: []Entry{
			{Linux: "linux", Initrds: make([]string, len(e.Initrds))}, {Linux: "linux", Initrds: []string{"i"}, Arch: pxe.X64},
		}}).AppendScript(nil)))
		if len(got) != len(want) {
			t.Fatalf("%d commands, want %d: %q", len(got), len(want), got)
		}
		items, kernels := []string{}, []string{}
		for i, argv := range got {
			if argv[0] != want[i][0] {
				t.Fatalf("command %q, want %q", argv, want[i])
			}
			switch argv[0] {
			case "item":
				items = append(items, strings.Join(argv[2:], " "))
			case "kernel":
				initrds := len(m.Entries[len(kernels)].Initrds)
				kernels = append(kernels, strings.Join(argv[2+initrds:], " "))
				if !strings.HasPrefix(argv[1], "/") {
					t.Fatalf("the kernel is %q", argv[1])
				}
			case "initrd":
				if len(argv) != 4 || !strings.HasPrefix(argv[3], "/") {
					t.Fatalf("got %q", argv)
				}
			default:
				if !slices.Equal(argv, want[i]) {
					t.Fatalf("command %q, want %q", argv, want[i])
				}
			}
		}
		if want := strings.Join(strings.Fields(printable(e.Title)), " "); items[1] != want {
			t.Fatalf("the title is %q, want %q", items[1], want)
		}
		if want := strings.Join(strings.Fields(e.Options), " "); kernels[0] != want {
			t.Fatalf("the options are %q, want %q", kernels[0], want)
		}
		if len(m.AppendScript(nil)) > 2048+2*(maxTitle+maxOptions*8+12*3*(maxPath+len(dir))) {
			t.Fatal("the script is too long")
		}
	})
}

// The conditions and the names of the specification cover the same architectures.
func TestEntryArchitectures(t *testing.T) {
	known := map[pxe.Arch]bool{}
	for name, arch := range entryArchs {
		if known[arch] = true; conditions[arch] == "" || name != strings.ToLower(name) {
			t.Errorf("%s has no condition", name)
		}
	}
	if len(known) != len(conditions) {
		t.Errorf("conditions are for %v", slices.Sorted(maps.Keys(conditions)))
	}
}
