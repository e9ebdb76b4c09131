//! Whether the user of the connection may do what the store needs, where somebody else owns the schema.
//!
//! Only the catalogue is read, which every user may.

use onefold_store::{Finding, Gravity};

use crate::error::Failed;
use crate::server::{Server, Unanswered};

/// What is missing, as a GRANT would name it. The numbers of the migrations are only read.
pub(crate) const MISSING: &str = "SELECT 'USAGE ON SCHEMA onefold'::text FROM pg_catalog.pg_namespace n
    WHERE n.nspname = 'onefold'::name AND NOT has_schema_privilege(n.oid, 'USAGE'::text)
    UNION ALL
    SELECT string_agg(p.privilege, ', '::text ORDER BY p.n) || ' ON onefold.'::text || c.relname::text
    FROM pg_catalog.pg_class c
    CROSS JOIN pg_catalog.unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']::text[]) WITH ORDINALITY AS p (privilege, n)
    WHERE c.relnamespace = to_regnamespace('onefold')::oid AND c.relkind IN ('r'::\"char\", 'p'::\"char\")
        AND NOT has_table_privilege(c.oid, p.privilege)
        AND (c.relname <> 'migrations'::name OR p.privilege = 'SELECT'::text)
    GROUP BY c.relname
    UNION ALL
    SELECT 'EXECUTE ON FUNCTION '::text || f.oid::regprocedure::text FROM pg_catalog.pg_proc f
    WHERE f.pronamespace = to_regnamespace('onefold')::oid AND NOT has_function_privilege(f.oid, 'EXECUTE'::text)
    ORDER BY 1";

/// Looks for what is missing.
pub(crate) async fn look(server: &Server) -> Result<Finding, Failed> {
    let rows = server.ask(MISSING, &[], Unanswered::AskAgain).await?;
    let missing: Vec<&str> = rows
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()
        .map_err(|error| Failed::of(&error))?;
    if missing.is_empty() {
        return Ok(Finding::new("grants", Gravity::Fine, "the user may do what the store needs"));
    }
    let says = format!("the user lacks {}: the owner of the schema grants it", missing.join("; "));
    Ok(Finding::new("grants", Gravity::Failure, says))
}
