package web_test

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/web"
)

// policyFor returns the policy that allows only the style and the scripts of a page.
func policyFor(t *testing.T, body string) string {
	t.Helper()
	hashes := func(tag string) (list string) {
		for _, m := range regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(body, -1) {
			sum := sha256.Sum256([]byte(m[1]))
			list += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
		if list == "" {
			t.Errorf("the page has no %s", tag)
		}
		return list
	}
	policy := "default-src 'none'; img-src data:; style-src" + hashes("style") + "; script-src" + hashes("script") +
		"; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	if strings.Contains(body, `id="upload"`) {
		policy += "; connect-src 'self'"
	}
	return policy
}

// The links of a page lead to the directories above, wherever the handler is mounted. Even for a
// very deep path, there are only a few links.
func TestListingCrumbs(t *testing.T) {
	deep := strings.TrimSuffix(strings.Repeat("d/", 40), "/")
	h := &web.Handler{Store: mem(t, map[string]string{"a/<b>&/\"c\"/x": "x", deep + "/x": "x"}), Listing: true}
	crumb := regexp.MustCompile(`<li>(?:<a href="([^"]*)"><bdi>)?(.*?)(?:</bdi></a>)?</li>`)
	for dir, want := range map[string][]string{
		"/": nil, "/a/": {"/ ../"}, "/a/%3Cb%3E&/%22c%22/": {"/ ../../../", "a ../../", "<b>& ../"},
		"/" + deep + "/": {"/ " + strings.Repeat("../", 40), "… "},
	} {
		body := ask(t, h, "GET "+dir, "").body
		var got []string
		for _, m := range crumb.FindAllStringSubmatch(body, -1) {
			got = append(got, html.UnescapeString(m[2])+" "+m[1])
		}
		if len(got) == 16 && len(want) == 2 {
			if got[15] != "d ../" {
				t.Errorf("%s: the last one is %s", dir, got[15])
			}
			got = got[:2]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
}

// A search finds a part of a name, ignoring case, and is kept when the list is sorted again.
func TestListingSearch(t *testing.T) {
	hostile := `"><script>alert(1)</script>&`
	h := &web.Handler{Store: mem(t, map[string]string{"Kernel-6": "x", "kernel-5": "xx", "initrd": "x", "ÜBER": "x", "index.html": "x", hostile[:3]: "x"}), Listing: true, Index: "index.html"}
	link := regexp.MustCompile(`<tr><td><a href="([^"]*)">`)
	for search, want := range map[string]string{"": "6 of 6", "kern": "Kernel-6 kernel-5", "KERNEL-5": "kernel-5", "über": "%C3%9CBER", "none": "", hostile: "", strings.Repeat("x", 5000): "", "*": "", "\xff": ""} {
		a := ask(t, h, "GET /?q="+url.QueryEscape(search), "")
		var names []string
		for _, m := range link.FindAllStringSubmatch(a.body, -1) {
			names = append(names, m[1])
		}
		if search == "" {
			if len(names) != 6 || !strings.Contains(a.body, ">6 entries<") {
				t.Errorf("an empty search finds %q", names)
			}
			continue
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%.20q finds %q, want %q", search, got, want)
		}
		a.wantField(t, "Content-Security-Policy", policyFor(t, a.body))
		if strings.Contains(a.body, "<script>alert") || len(a.body) > 16_000 {
			t.Errorf("%.20q: the page has it as it is: %d bytes", search, len(a.body))
		}
	}
	body := ask(t, h, "GET /?q=kern%26&sort=size&order=desc", "").body
	for _, part := range []string{`value="kern&amp;"`, `<a href="?sort=size&amp;order=asc&amp;q=kern%26">`, `0 of 6 entries`, `<a href="?sort=size&amp;order=desc">Show all</a>`} {
		if !strings.Contains(body, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
	if names := listedNames(t, h, "", 10); len(names) != 6 {
		t.Errorf("as JSON: %q", names)
	}
	ask(t, h, "GET /?json&q=initrd", "").want(t, 200, "[\n{\"name\":\"initrd\",\"type\":\"file\",\"size\":1,\"mtime\":\"2026-01-02T03:04:05Z\"}\n]\n")
}

// The page offers uploads if the client may upload.
func TestListingUploads(t *testing.T) {
	st := mem(t, map[string]string{"d/x": "x"})
	for access, want := range map[web.Access]string{
		web.AccessRead: "", web.AccessCreate: `data-replaces="false"`, web.AccessOverwrite: `data-replaces="true"`, web.AccessFull: `data-replaces="true"`,
	} {
		a := ask(t, &web.Handler{Store: st, Listing: true, Access: access}, "GET /d/", "")
		if strings.Contains(a.body, `id="upload"`) != (want != "") || !strings.Contains(a.body, want) {
			t.Errorf("access %d: the page lacks %q, or takes uploads", access, want)
		}
		a.wantField(t, "Content-Security-Policy", policyFor(t, a.body))
	}
}

// Pages of other sites cannot change files, even if the browser that shows them has a password for
// this server; programs and pages of this server can.
func TestCrossOrigin(t *testing.T) {
	st := mem(t, nil)
	h := &web.Handler{Store: st, Listing: true, Access: web.AccessFull}
	for _, c := range []struct {
		fields string
		status int
	}{
		{"", 201}, {"Sec-Fetch-Site: same-origin", 201}, {"Sec-Fetch-Site: none", 201}, {"Origin: http://example.com", 201},
		{"Sec-Fetch-Site: same-origin\nOrigin: https://behind.a.proxy.example", 201},
		{"Sec-Fetch-Site: cross-site", 403}, {"Sec-Fetch-Site: same-site", 403}, {"Origin: http://evil.example", 403}, {"Origin: http://example.com:81", 403}, {"Origin: null", 403},
		{"Sec-Fetch-Site: cross-site\nOrigin: http://example.com", 403}, {"Sec-Fetch-Site: nonsense", 403},
	} {
		fields := strings.Split(c.fields, "\n")
		if c.fields == "" {
			fields = nil
		}
		ask(t, h, "PUT http://example.com/f", "x", fields...).want(t, c.status, "*")
		if got := content(t, st, "f"); (got == "x") != (c.status == 201) {
			t.Errorf("%q: there is %q", c.fields, got)
		}
		removed := ask(t, h, "DELETE http://example.com/f", "", fields...)
		if (removed.status == 204) != (c.status == 201) {
			t.Errorf("%q: DELETE is answered %d", c.fields, removed.status)
		}
		ask(t, h, "GET http://example.com/", "", fields...).want(t, 200, "*")
		// Browsers send a preflight request first, which is refused.
		preflight := ask(t, h, "OPTIONS http://example.com/f", "", append(fields, "Access-Control-Request-Method: PUT")...)
		preflight.want(t, 204, "")
		for key := range preflight.header {
			if strings.HasPrefix(key, "Access-Control-") {
				t.Errorf("%q: OPTIONS is answered with %s", c.fields, key)
			}
		}
	}
}
