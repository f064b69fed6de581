package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An unknown command or flag is named as what it is, with the nearest that exists.
func TestUnknownWords(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"srve .", `there is no command "haul srve"; did you mean "haul serve"?`},
		{"xyzzy", `there is no command "haul xyzzy"; "haul --help" lists all`},
		{"xyzzy --json", `there is no command "haul xyzzy"; "haul --help" lists all`},
		{"user lst --users f", `there is no command "haul user lst"; did you mean "haul user list"?`},
		{"user shw --users f", `there is no command "haul user shw"; did you mean "haul user show"?`},
		{"user xyzzy x --users f", `there is no command "haul user xyzzy"; "haul user --help" lists all`},
		{"map tset", `there is no command "haul map tset"; did you mean "haul map test"?`},
		{"bench tfpt", `there is no command "haul bench tfpt"; did you mean "haul bench tftp"?`},
		{"completion xyzzy", `there is no command "haul completion xyzzy"; "haul completion --help" lists all`},
		{"completion bsh", `there is no command "haul completion bsh"; did you mean "haul completion bash"?`},
		{"help size", `there is no help on "size"; did you mean "haul help sizes"?`},
		{"help serve xyzzy", `there is no help on "serve xyzzy"; haul help serve has the topics tftp, sftp, http, files, boot, limits, ops`},
		{"mv l.txt h:/x", "mv l.txt: that is a local file; write sftp://HOST/PATH or HOST:PATH"},
		{"rm l.txt", "rm l.txt: that is a local file; write sftp://HOST/PATH, https://HOST/PATH, s3://BUCKET/KEY or HOST:PATH"},
		{"help serve tfpt", `there is no help on "serve tfpt"; did you mean "haul help serve tftp"?`},
		{"sizes", `there is no command "haul sizes"; did you mean "haul help sizes"?`},
		{"ls tftp://h/a", "ls tftp://h/a: TFTP can only get and put single files; ls works over SFTP, HTTP and S3"},
		{"get a", "get a: that is a local file; a source is a URL sftp://HOST/PATH, https://HOST/PATH, s3://BUCKET/KEY or tftp://HOST/FILE, or HOST:PATH"},
		{"df tftp://h/a", "df tftp://h/a: TFTP can only get and put single files; df works over SFTP"},
		{"help srve", `there is no command "haul srve"; did you mean "haul serve"?`},
		{"help nowhere", `there is no command or topic "nowhere"; "haul help" lists all`},
		{"help user nope", `there is no command "haul user nope"; "haul user --help" lists all`},
		{"mv http://h/a b", "mv http://h/a: HTTP has no way to do that; mv works over SFTP"},
		{"mv b http://h/a", "mv b: that is a local file; write sftp://HOST/PATH or HOST:PATH"},
		{"probe --trace-hex 9 tftp://h/a", "--trace-hex needs --trace: it shows the bytes of the packets that --trace shows"},
		{"help map tset", `there is no command "haul map tset"; did you mean "haul map test"?`},
		{"serve s3:/b/x", "serve s3:/b/x: there is no such directory; write s3://b/x for a URL"},
		{"serve s3://b --cache c", "--cache goes with --cache-size BYTES, such as 20GB, of at least 64 MiB"},
		{"serve s3://b --cache c --cache-size 64MB", "--cache-size 64000000: must be at least 64 MiB, which is 67108864 bytes"},
		{"serve --uplaod create .", `there is no flag --uplaod in "haul serve"; did you mean --upload?`},
		{"ls --jsn h:", `there is no flag --jsn in "haul ls"; did you mean --json?`},
		{"ls --xyzzy h:", `there is no flag --xyzzy in "haul ls"`},
		{"mirror a h:b", `there is no command "haul mirror"; did you mean "haul sync"?`},
		{"check a h:b", `there is no command "haul check"; did you mean "haul sum"?`},
		{"purge h:b", `there is no command "haul purge"; did you mean "haul rm"?`},
		{"rename h:a h:b", `there is no command "haul rename"; did you mean "haul mv"?`},
		{"copyto h:a h:b", `there is no command "haul copyto"; did you mean "haul cp"?`},
		{"sync --transfers 4 a h:", `there is no flag --transfers in "haul sync"; did you mean --parallel?`},
		{"get --resume h:a", `there is no flag --resume in "haul get"; did you mean --continue?`},
		{"ls --transfers 4 h:", `there is no flag --transfers in "haul ls"`},
		{"ls -Z h:", `there is no flag -Z in "haul ls"`},
		{"user --xyzzy", `there is no flag --xyzzy in "haul user"`},
	} {
		code, _, msg := haul(t, strings.Fields(c.args)...)
		if code != exitUsage || msg != c.says {
			t.Errorf("haul %s: exit code %d, %q, want %q", c.args, code, msg, c.says)
		}
	}
	for args, says := range map[string]string{"help serve": "haul serve [DIR...]", "help map test": "haul map test FILE", "help": "haul COMMAND", "help sizes": "KiB", "help serve files": "--map FILE"} {
		if code, out, _ := haul(t, strings.Fields(args)...); code != 0 || !strings.Contains(out, says) {
			t.Errorf("haul %s: exit code %d, without %q", args, code, says)
		}
	}
}

// A mistake on the command line is followed by where to read about the command.
func TestUsageHint(t *testing.T) {
	for args, want := range map[string]string{"ls --xyzzy": "haul ls", "map xyzzy": "haul map", "map test": "haul map test", "xyzzy": "haul"} {
		root := newRoot()
		root.SetArgs(strings.Fields(args))
		cmd, err := root.ExecuteContextC(t.Context())
		var out bytes.Buffer
		printFailure(&out, cmd, err)
		if !strings.HasSuffix(out.String(), "\nsee: "+want+" --help\n") {
			t.Errorf("haul %s: %q", args, out.String())
		}
	}
}

// Help names no default that is empty.
func TestHelpHasNoEmptyDefault(t *testing.T) {
	for _, cmd := range allCommands(newRoot()) {
		if text := cmd.Flags().FlagUsages(); strings.Contains(text, "(default )") {
			t.Errorf("%s: %s", cmd.CommandPath(), text)
		}
	}
}

// Help shows the value of a flag in upper case, so that nobody types it as it stands.
func TestMetavariables(t *testing.T) {
	upper := regexp.MustCompile(`^[^a-z]*[A-Z][^a-z]*$`)
	for _, cmd := range allCommands(newRoot()) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); value != "" && !upper.MatchString(value) {
				t.Errorf("%s --%s %s", cmd.CommandPath(), f.Name, value)
			}
		})
	}
}

// complete returns the completions of a command line, and what the shell is to add.
func complete(t *testing.T, words ...string) (list []string, directive cobra.ShellCompDirective) {
	t.Helper()
	code, out, msg := haul(t, append([]string{cobra.ShellCompRequestCmd}, words...)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := lines[len(lines)-1]
	if n, err := fmt.Sscanf(last, ":%d", &directive); code != 0 || n != 1 || err != nil {
		t.Fatalf("complete %q: exit code %d, %q, %s", words, code, out, msg)
	}
	for _, l := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(l, "\t")
		list = append(list, word)
	}
	return list, directive
}

// completedWords are the flags whose values are words.
var completedWords = map[string][]string{
	"serve audit-hash": {"sha256"}, "serve upload": {"create", "overwrite", "unique"}, "serve per-client": {"ip", "mac"}, "serve log-format": {"text", "json"}, "serve mtu": {"auto", "none", "1500"}, "serve advise": {"dnsmasq", "isc", "kea"}, // of haul boot
	"get links": {"skip", "keep", "follow"}, "put links": {"skip", "keep", "follow"}, "sync links": {"skip", "keep", "follow"}, "get unchanged": {"time", "size", "hash"}, "put unchanged": {"time", "size", "hash"},
	"cp links": {"skip", "keep", "follow"}, "sum algorithm": {"md5", "sha1", "sha224", "sha256", "sha384", "sha512"},
	"user add access": {"full", "read-only", "upload-only"}, "user set access": {"full", "read-only", "upload-only"}, "user set require": {"any", "key+password"},
}

// Each flag that takes something is completed by its words, by files, by
// directories, or by nothing, and never by files that it does not take.
func TestFlagCompletions(t *testing.T) {
	seen := map[string]bool{}
	for _, cmd := range allCommands(newRoot()) {
		path := strings.Fields(cmd.CommandPath())[1:]
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			value, _ := pflag.UnquoteUsage(f)
			if value == "" {
				return
			}
			key := strings.Join(append(slices.Clone(path), f.Name), " ")
			for _, same := range []string{"config show ", "boot "} { // the same flags
				if rest, is := strings.CutPrefix(key, same); is {
					key = "serve " + rest
				}
			}
			list, directive := complete(t, append(slices.Clone(path), "--"+f.Name+"=")...)
			want := cobra.ShellCompDirectiveNoFileComp
			switch value {
			case "FILE", "KEY":
				want = cobra.ShellCompDirectiveDefault
			case "DIR":
				want = cobra.ShellCompDirectiveFilterDirs
			}
			if words := completedWords[key]; len(words) > 0 {
				seen[key] = true
				slices.Sort(list)
				if slices.Sort(words); !slices.Equal(list, words) {
					t.Errorf("%s is completed by %q, want %q", key, list, words)
				}
			} else if len(list) > 0 {
				t.Errorf("%s is completed by %q", key, list)
			}
			if directive != want {
				t.Errorf("%s %s: directive %d, want %d", key, value, directive, want)
			}
		})
		if !cmd.HasSubCommands() {
			_, out, _ := haul(t, append(append([]string{cobra.ShellCompRequestCmd}, path...), "--")...)
			if strings.Contains(out, "`") {
				t.Errorf("completions of %q show backquotes:\n%s", path, out)
			}
		}
	}
	if len(seen) != len(completedWords) {
		t.Errorf("%d flags with words, want %d", len(seen), len(completedWords))
	}
}
