package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if err := os.Chdir(filepath.Join("..", "..")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestLicenseOf(t *testing.T) {
	for text, want := range map[string]string{
		"MIT License\n\nPermission is hereby granted, free of\ncharge, to any person obtaining a copy of": "MIT",
		"Redistribution and use in source and binary forms … Neither the name of":                         "BSD-3-Clause",
		"Redistribution and use in source and binary forms":                                               "",
		"GNU GENERAL PUBLIC LICENSE": "",
		"":                           "",
	} {
		if got := licenseOf(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestBundledPackages(t *testing.T) {
	const sum = "sha512-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="
	lock := func(packages string) []byte { return []byte(`{"packages": {"": {"version": "1"}, ` + packages + `}}`) }
	parts, err := bundledPackages(lock(`"node_modules/b": {"version": "2", "license": "MIT", "integrity": "` + sum + `"},
		"node_modules/b/node_modules/@x/a": {"version": "3", "license": "ISC", "resolved": "https://r/a.tgz", "integrity": "` + sum + `"},
		"node_modules/tool": {"version": "4", "license": "MIT", "dev": true}`))
	if err != nil || len(parts) != 2 || parts[0].name != "@x/a" || parts[0].url != "pkg:npm/%40x/a@3" || parts[0].source != "https://r/a.tgz" ||
		parts[1].name != "b" || parts[1].version != "2" || parts[1].sha512 != strings.Repeat("0", 128) {
		t.Errorf("got %+v, %v", parts, err)
	}
	for _, bad := range []string{
		`"node_modules/b": {"version": "2", "license": "MIT"}`,
		`"node_modules/b": {"version": "2", "license": "MIT", "integrity": "sha1-AAAA"}`,
		`"node_modules/b": {"version": "2", "integrity": "` + sum + `"}`,
	} {
		if parts, err := bundledPackages(lock(bad)); err == nil || parts != nil {
			t.Errorf("%s: got %+v", bad, parts)
		}
	}
	if _, err := bundledPackages([]byte("{")); err == nil {
		t.Error("half a file is taken")
	}
}

// The bill is valid, the same twice, and names each part once with where it is from;
// what it says is bundled is what the pages' licences name.
func TestBill(t *testing.T) {
	modules, err := linkedModules()
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile("web/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := bundledPackages(lock)
	if err != nil {
		t.Fatal(err)
	}
	parts := append(modules, packages...)
	text, err := spdx("v1-2-gabc", time.Unix(1700000000, 0), parts)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := spdx("v1-2-gabc", time.Unix(1700000000, 0), parts); err != nil || !bytes.Equal(text, again) {
		t.Error("another text for the same parts")
	}
	var d spdxDocument
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		t.Fatal(err)
	}
	if d.Creation.Created != "2023-11-14T22:13:20Z" || len(d.Packages) != len(parts)+1 || len(d.Relationships) != len(d.Packages) || len(parts) < 8 {
		t.Errorf("%d parts: %s", len(parts), text)
	}
	ids := map[string]bool{}
	for _, p := range d.Packages {
		if ids[p.ID] || !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(p.ID) || p.Declared == "" || p.Version == "" {
			t.Errorf("package %+v", p)
		}
		ids[p.ID] = true
	}
	for _, r := range d.Relationships {
		if !ids[r.To] {
			t.Errorf("relationship %+v", r)
		}
	}
}

// What the pages say that they are made of is what the bill says.
func TestPagesNameTheirPackages(t *testing.T) {
	page, err := os.ReadFile("web/dist/licenses.txt")
	if os.IsNotExist(err) {
		t.Skip("the pages are not built: ./build.sh build")
	}
	lock, err2 := os.ReadFile("web/package-lock.json")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	packages, err := bundledPackages(lock)
	if err != nil {
		t.Fatal(err)
	}
	modules, err := linkedModules()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(page, notices(modules)) {
		t.Error("the page does not begin with the licences of the modules")
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^={72}\n(\S+ \S+) \(\S+\)$`).FindAllSubmatch(page[len(notices(modules)):], -1) {
		named[string(m[1])] = true
	}
	for _, p := range packages {
		if !named[p.name+" "+p.version] {
			t.Errorf("the page does not name %s %s", p.name, p.version)
		}
	}
	if len(named) != len(packages) {
		t.Errorf("the page names %v, the bill %d packages", named, len(packages))
	}
}
