//! Arguments of listings.

use super::*;

fn parse(name: &str, args: &[(&str, &str)]) -> Result<Vec<Listing>, String> {
    let args: Vec<_> = args.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Listing::parse(name, &args).map_err(|error| error.to_string())
}

const ONE: &str = "20329687bb9c1231a7e05afe86160343ad49b494";
const TWO: &str = "c0d8929936631ecbcf9147be6b8aa13b13b014e4";

#[test]
fn requests_name_the_rows_to_list() {
    let [one, two] = [ONE, TWO].map(|id| id.parse().unwrap());
    let relation = Relation::ContentInRevision;
    let of = |end| Listing::Relation(relation, Some(end));
    assert_eq!(parse("locations", &[]), Ok(vec![Listing::Locations]));
    assert_eq!(parse("entities", &[("kind", "origin")]), Ok(vec![Listing::Entities(Entity::Origin)]));
    let named = ("relation", "content_in_revision");
    assert_eq!(parse("relations", &[named]), Ok(vec![Listing::Relation(relation, None)]));
    let sources = parse("relations", &[("id", TWO), named, ("id", ONE), ("id", TWO)]);
    assert_eq!(sources, Ok(vec![of(End::Source(one)), of(End::Source(two))]), "each identifier once");
    let destination = parse("relations", &[named, ("id", ONE), ("reverse", "true")]);
    assert_eq!(destination, Ok(vec![of(End::Destination(one))]));
}

#[test]
fn invalid_requests_are_refused_by_name() {
    let named = ("relation", "content_in_revision");
    let many = vec![("id", ONE); IDS_MAX + 1];
    let many = [&[named], &many[..]].concat();
    for (name, args, words) in [
        ("rows", &[][..], "relations, entities, locations"),
        ("locations", &[("kind", "x")], "unknown argument `kind`"),
        ("entities", &[], "kind=: use one of content"),
        ("entities", &[("kind", "location")], "kind=location: use one of content, directory"),
        ("entities", &[("kind", "content"), ("kind", "origin")], "give one kind"),
        ("relations", &[], "relation=: use one of content_in_revision"),
        ("relations", &[named, ("id", "2032")], "2032: an identifier is 40 hex digits"),
        ("relations", &[named, ("reverse", "true")], "reverse: name the identifiers"),
        ("relations", &[named, ("id", ONE), ("reverse", "1")], "reverse=1: use true or false"),
        ("relations", &many, "1001 identifiers: ask for 1000 at most"),
    ] {
        let error = parse(name, args).unwrap_err();
        assert!(error.contains(words), "{name}: {error}");
    }
}
