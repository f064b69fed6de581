package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/serve"
	"github.com/haul-project/haul/site"
)

// fileRules are flags about files that TFTP has in common with HTTP without users.
var fileRules = strings.Fields("root per-client shared map fold-case hidden access upload upload-dir")

// addFiles adds the flags about files.
func (f *serveFlags) addFiles(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.roots, "root", nil, "give some clients another directory, as `CLIENT=DIR`; repeat for more")
	flags.StringVar(&f.perClient, "per-client", "", "give each client a directory below DIR: `BY` is ip or mac")
	flags.BoolVar(&f.Files.Shared, "shared", false, "with --per-client, serve from DIR what is missing there")
	flags.StringVar(&f.Files.Map, "map", "", "rewrite names by the rules in `FILE`, as tftpd-hpa -m does")
	flags.BoolVar(&f.Files.FoldCase, "fold-case", false, "ignore upper and lower case in names")
	flags.BoolVar(&f.Files.Hidden, "hidden", false, "serve and accept names that begin with a dot too; users who log in always may use them")
	flags.StringArrayVar(&f.access, "access", nil, "allow or deny clients some files by this `RULE`; repeat for more")
	flags.StringVar(&f.upload, "upload", "", "let clients write files: `MODE` is create (new files only), overwrite (replace files too) or unique (add a time stamp to each name)")
	flags.StringVar(&f.Files.UploadDir, "upload-dir", "", "write uploads to this `DIR`, and serve nothing from it")
	sizeVar(flags, &f.Files.MaxUpload, "max-upload", f.Files.MaxUpload, "largest upload over TFTP and HTTP, of users too")

	completeWords(cmd, "upload", "create", "overwrite", "unique")
	completeWords(cmd, "per-client", "ip", "mac")
}

func (f *serveFlags) parseFiles() (err error) {
	if f.Files.Upload, err = parseUpload(f.upload); err != nil {
		return err
	}
	if f.perClient != "" {
		if f.Files.PerClient, err = site.ParsePerClient(f.perClient); err != nil {
			return failure.Usage.Errorf("--per-client: %w", err)
		}
	}
	for _, word := range f.roots {
		root, err := parseRoot(word)
		if err != nil {
			return err
		}
		f.Files.Roots = append(f.Files.Roots, root)
	}
	for _, word := range f.access {
		rule, err := site.ParseRule(word)
		if err != nil {
			return failure.Usage.Errorf("--access %q: %w", word, err)
		}
		f.Files.Access = append(f.Files.Access, rule)
	}
	return nil
}

func parseUpload(word string) (site.Policy, error) {
	if word == "" {
		return site.UploadNone, nil
	}
	p, err := site.ParsePolicy(word)
	if err != nil || p == site.UploadNone {
		return p, failure.Usage.Errorf("--upload %s: choose create, overwrite or unique", word)
	}
	return p, nil
}

// parseRoot reads "CLIENT=DIR". CLIENT may contain an equals sign itself, as in
// "on=:6969", so the first that has a valid CLIENT in front of it counts.
func parseRoot(word string) (serve.Root, error) {
	var first error
	for i := range len(word) {
		if word[i] != '=' {
			continue
		}
		m, err := site.ParseMatch(word[:i])
		if err == nil {
			return serve.Root{For: m, Dir: word[i+1:]}, nil
		}
		if first == nil || strings.HasPrefix(word, "on=") {
			first = err
		}
	}
	if first == nil {
		first = errors.New("it is CLIENT=DIR")
	}
	return serve.Root{}, failure.Usage.Errorf("--root %s: %w", word, first)
}
