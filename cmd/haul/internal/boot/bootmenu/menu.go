package bootmenu

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/internal/urlpath"
)

// AutoexecName is the script that iPXE for UEFI looks for in its own directory: see
// [AppendAutoexec].
const AutoexecName = "autoexec.ipxe"

// A Menu is the menu that iPXE or GRUB shows, with its default choice.
type Menu struct {
	Entries []Entry

	// Default is the Name of the entry that boots after Timeout, or "" for the disk of the machine.
	// With a Timeout of 0, the menu waits forever.
	Default string
	Timeout time.Duration

	// Problems lists the entries that were left out, with the reasons.
	Problems []error
}

// Check returns an error if no bootable entry has the name Default.
func (m *Menu) Check() error {
	if m.Default != "" && m.index(m.Default) < 0 {
		return fmt.Errorf("no entry has the name %q, which is to be booted by default", m.Default)
	}
	return nil
}

// IPXEProblems returns, for the first entries that iPXE of early 2019 cannot load, the reasons.
// That is the version in Debian 12. By HTTP, such an iPXE requests a wrong name if the name in the
// script is not ASCII.
func (m *Menu) IPXEProblems() (all []error) {
	for _, e := range m.Entries {
		if len(all) < maxProblems && strings.ContainsFunc(e.Linux+strings.Join(e.Initrds, ""), func(r rune) bool { return r >= utf8.RuneSelf }) {
			all = append(all, fmt.Errorf("%s: the name of a file has letters that are not ASCII", e.Name))
		}
	}
	return all
}

func (m *Menu) index(name string) int {
	for i := range m.Entries {
		if e := &m.Entries[i]; e.Name == name && e.check() == nil {
			return i
		}
	}
	return -1
}

// AppendScript appends the menu as a script for iPXE, to be served as [pxe.ScriptName]. If
// hosts/MAC.ipxe exists, the script runs that file instead; a MAC is written as
// 52-54-00-12-34-56. All files are fetched from the server of the script. To boot from the disk
// on UEFI, iPXE exits with an error: after a success, firmware would show its menu instead of
// trying the next device.
//
// Titles, names and options may have any content; none of it becomes an iPXE command. Entries
// that iPXE cannot boot are left out, such as one with a control character in its options.
func (m *Menu) AppendScript(b []byte) []byte {
	b = append(b, "#!ipxe\n"+
		"chain --autofree --replace /hosts/${mac:hexhyp}.ipxe ||\n"+
		":menu\n"+
		"menu Boot from the network\n"+
		"item local Disk of this machine\n"...)
	if len(m.Entries) == 0 {
		b = append(b, "item --gap There is no kernel on the server\n"...)
	}
	for i := range m.Entries {
		if e := &m.Entries[i]; e.check() == nil {
			b = e.appendItem(b, i)
		}
	}
	b = append(b, "choose --default "...)
	if i := m.index(m.Default); m.Default != "" && i >= 0 {
		b = appendLabel(b, i)
	} else {
		b = append(b, "local"...)
	}
	if m.Timeout > 0 {
		b = strconv.AppendInt(append(b, " --timeout "...), m.Timeout.Milliseconds(), 10)
	}
	b = append(b, " chosen || set chosen local\n"+
		"goto ${chosen}\n"+
		":local\n"+
		"iseq ${platform} pcbios && sanboot --no-describe --drive 0x80 ||\n"+
		"exit 1\n"+
		":failed\n"+
		"echo The boot failed\n"+
		"prompt --timeout 10000 Press a key for the menu ||\n"+
		"goto menu\n"...)
	for i := range m.Entries {
		if e := &m.Entries[i]; e.check() == nil {
			b = e.appendBoot(b, i)
		}
	}
	return b
}

// AppendAutoexec appends the script that iPXE for UEFI looks for in its own directory, under the
// name autoexec.ipxe. The script gets an address, then runs the script that the answer to iPXE
// names, or else [pxe.ScriptName].
func AppendAutoexec(b []byte) []byte {
	return append(b, "#!ipxe\n"+
		"dhcp ||\n"+
		"isset ${proxydhcp/filename} && chain --autofree --replace ${proxydhcp/filename} ||\n"+
		"chain --autofree --replace /"+pxe.ScriptName+"\n"...)
}

// conditions maps architectures to iPXE commands that succeed on machines that can run a kernel of
// that architecture. On a BIOS, iPXE has 32 bits, and starts 64-bit kernels as well.
var conditions = map[pxe.Arch]string{
	pxe.IA32:        "iseq ${buildarch} i386",
	pxe.X64:         "iseq ${buildarch} x86_64 || iseq ${platform} pcbios",
	pxe.ARM:         "iseq ${buildarch} arm32",
	pxe.ARM64:       "iseq ${buildarch} arm64",
	pxe.RISCV64:     "iseq ${buildarch} riscv64",
	pxe.LoongArch64: "iseq ${buildarch} loong64",
}

// appendItem appends the line of an entry in the menu.
func (e *Entry) appendItem(b []byte, i int) []byte {
	condition := conditions[e.Arch]
	if condition != "" {
		b = append(append(b, condition...), " && "...)
	}
	b = appendWords(appendLabel(append(b, "item "...), i), printable(e.Title))
	if condition != "" {
		b = append(b, " ||"...)
	}
	return append(b, '\n')
}

// appendBoot appends the commands that boot an entry. A UEFI kernel finds its initrds by their
// names on its command line. Since 2020, iPXE also passes the initrds itself.
func (e *Entry) appendBoot(b []byte, i int) []byte {
	b = append(appendLabel(append(b, ':'), i), "\nimgfree ||\nkernel /"...)
	b = urlpath.Append(b, e.Linux)
	for n := range e.Initrds {
		b = appendInitrd(append(b, " initrd="...), n)
	}
	b = append(appendWords(b, e.Options), " || goto failed\n"...)
	for n, name := range e.Initrds {
		b = append(appendInitrd(append(b, "initrd --name "...), n), " /"...)
		b = append(urlpath.Append(b, name), " || goto failed\n"...)
	}
	return append(b, "boot || goto failed\n"...)
}

func appendLabel(b []byte, i int) []byte {
	return strconv.AppendInt(append(b, "entry"...), int64(i), 10)
}

func appendInitrd(b []byte, n int) []byte {
	return append(strconv.AppendInt(append(b, "initrd"...), int64(n), 10), ".img"...)
}

// nothing refers to an iPXE setting that does not exist. iPXE expands settings only after it has
// split a line into words and commands. So this setting can separate characters that iPXE would
// otherwise join, and hide words that it would otherwise interpret.
const nothing = "${nothing}"

// appendWords appends each word of text after a space, written so that iPXE passes it to the
// command unchanged. The text must not contain control characters or "${".
//
// iPXE does not support quotes. It ends a command at the words ||, && and ;, treats a word that
// begins with # as a comment, and joins a line that ends with a backslash to the next line.
func appendWords(b []byte, text string) []byte {
	for word := range strings.FieldsSeq(text) {
		b = append(b, ' ')
		if word[0] == '#' || word == "||" || word == "&&" || word == ";" {
			b = append(b, nothing...)
		}
		b = append(b, word...)
		if word[len(word)-1] == '\\' {
			b = append(b, nothing...)
		}
	}
	return b
}

// printable returns a title that a menu can show: ASCII, at most maxTitle bytes, and without iPXE
// settings.
func printable(title string) string {
	title = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, title)
	return strings.ReplaceAll(title[:min(len(title), maxTitle)], "${", "$(")
}
