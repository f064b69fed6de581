package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help never shows an empty default.
func TestHelpHasNoEmptyDefault(t *testing.T) {
	for _, cmd := range allCommands(newRoot()) {
		if text := cmd.Flags().FlagUsages(); strings.Contains(text, "(default )") {
			t.Errorf("%s: %s", cmd.CommandPath(), text)
		}
	}
}

// Help shows the value of a flag in upper case, so that nobody types it literally.
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

// complete returns the completions of a command line, and the directive for the shell.
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

// completedWords lists the flags whose values are words.
var completedWords = map[string][]string{
	"serve audit-hash": {"sha256"}, "serve upload": {"create", "overwrite", "unique"}, "serve per-client": {"ip", "mac"}, "serve log-format": {"text", "json"}, "serve mtu": {"auto", "none", "1500"}, "serve advise": {"dnsmasq", "isc", "kea"}, // of haul boot
	"get links": {"skip", "keep", "follow"}, "put links": {"skip", "keep", "follow"}, "sync links": {"skip", "keep", "follow"}, "get unchanged": {"time", "size", "hash"}, "put unchanged": {"time", "size", "hash"},
	"cp links": {"skip", "keep", "follow"}, "sum algorithm": {"md5", "sha1", "sha224", "sha256", "sha384", "sha512"},
	"user add access": {"full", "read-only", "upload-only"}, "user set access": {"full", "read-only", "upload-only"}, "user set require": {"any", "key+password"},
}

// Each flag with a value is completed with its words, files, directories, or nothing, and never
// with files that it does not accept.
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
			for _, same := range []string{"config show ", "boot "} { // these have the same flags
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
