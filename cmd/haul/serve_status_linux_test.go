package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With users and TLS, the page requires a login, also in a confined server. A user who is added
// later can log in, and neither file is served.
func TestServeStatusLogin(t *testing.T) {
	t.Parallel() // it waits most of the time
	alice := "user alice\n" + hashed(t, "wonderland")
	file := usersFile(t, alice)
	secrets := filepath.Dir(file)
	flags, trust := certificate(t, secrets)
	for i := range flags {
		flags[i] = strings.NewReplacer("--cert", "--status-cert", "--key", "--status-key").Replace(flags[i])
	}
	args := append([]string{"--status", "0.0.0.0:0", "--status-users", file}, flags...)
	c := startSettled(t, append([]string{servedDir(t, map[string]string{"kernel": "image"})}, args...)...)
	_, port, _ := strings.Cut(strings.TrimPrefix(c.statusURL(), "https://"), "]:")
	if port == "" {
		_, port, _ = strings.Cut(strings.TrimPrefix(c.statusURL(), "https://"), ":")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}, Timeout: patience}
	get := func(name, password string) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if name != "" {
			q.SetBasicAuth(name, password)
		}
		answer, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if code := get("", ""); code != 401 {
		t.Errorf("status %d without a login", code)
	}
	if code := get("alice", "wonderland"); code != 200 {
		t.Errorf("status %d with a login", code)
	}
	writeUsers(t, file, alice+"user bob\n"+hashed(t, "builder"))
	c.await("status users: the changed file is in force")
	if code := get("bob", "builder"); code != 200 {
		t.Errorf("status %d with a new login", code)
	}
	if conn, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}); err != nil {
		t.Error(err)
	} else if conn.Close(); conn.ConnectionState().NegotiatedProtocol != "http/1.1" {
		t.Errorf("it agrees on %q", conn.ConnectionState().NegotiatedProtocol)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("wonderland\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("https://alice@127.0.0.1:%s", port)
	if code, out, errs := haul(t, "top", url, "--insecure", "--password-file", password); code != 0 || !strings.Contains(out, "TFTP") {
		t.Errorf("haul top: exit code %d, %s%s", code, out, errs)
	}
	// There is no terminal to ask for the password.
	if code, _, errs := haul(t, "top", url, "--insecure"); code != exitUsage || !strings.Contains(errs, "no terminal to ask for a password; --password-file FILE") {
		t.Errorf("haul top: exit code %d, %s", code, errs)
	}
	c.stopSettled()

	said := runChild(t, childOptions{}, append(append([]string{"serve", secrets}, anyPort...), args...)...).wantExit(exitUsage)
	if !strings.Contains(said, "the users file of the status page") {
		t.Errorf("a directory with the secrets is served: %s", said)
	}
}

// A key that the user of --user may not read is still served, and the log warns that its
// replacement will not be.
func TestServeCertificateUnreadable(t *testing.T) {
	t.Parallel() // it waits most of the time
	needRoot(t)
	flags, _ := certificate(t, t.TempDir())
	if err := os.Chmod(flags[3], 0o600); err != nil {
		t.Fatal(err)
	}
	c := startSettled(t, append([]string{servedDir(t, nil), "--https", "127.0.0.1:0"}, flags...)...)
	c.await("https certificate: a new one is not loaded before a restart", "chgrp, chmod 640", fmt.Sprint("uid=", nobody), flags[3]+": permission denied")
	c.stopSettled()
}
